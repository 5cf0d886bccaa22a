/** Writes what the mounts of an isolated sandbox need: its mount points and its mount table. */
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type BoxPlan, mountPoints, mountTable, mountTableOf } from "./local-box.ts"

export const writeMounts = (plan: BoxPlan): void => {
  const { directories, files } = mountPoints(plan)
  for (const path of [plan.mounts, ...directories.map((name) => join(plan.mounts, name))]) {
    mkdirSync(path, { recursive: true })
    // The user of the sandbox passes through it, whatever the umask is.
    chmodSync(path, 0o755)
  }
  for (const [name, content] of Object.entries(files)) {
    const path = join(plan.mounts, name)
    if (!existsSync(path)) writeFileSync(path, content)
    chmodSync(path, 0o644)
  }
  writeFileSync(mountTableOf(plan), mountTable(plan), { mode: 0o600 })
}
