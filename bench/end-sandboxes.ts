/** Ends the local sandboxes of a bench that is stopped by a signal. Synchronous: the bench must not go on meanwhile. */
import { existsSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { findCgroups } from "../src/fleet/providers/local-cgroups.ts"
import { killTree } from "../src/fleet/providers/local-processes.ts"
import { boxSchema } from "../src/fleet/providers/local-record.ts"
import { shortDigest } from "../src/lib/digest.ts"

const namesIn = (folder: string): readonly string[] =>
  existsSync(folder) ? readdirSync(folder) : []

/** The cgroup of a sandbox, as the local provider names it. */
export const groupFolder = (fleetRoot: string, ref: string): string => {
  return join(findCgroups().root ?? "", `sandpiper-${shortDigest(fleetRoot, 10)}-${ref}`)
}

const removeGroup = (folder: string): void => {
  for (let attempt = 0; attempt < 100 && existsSync(folder); attempt += 1) {
    try {
      rmdirSync(folder)
    } catch {
      // Its processes are still being reaped.
      Bun.sleepSync(20)
    }
  }
}

/** `root`: the directory of the bench, which holds a directory for each fleet. */
export const endSandboxes = (root: string): void => {
  for (const fleet of namesIn(root)) {
    const fleetRoot = join(root, fleet)
    for (const ref of namesIn(join(fleetRoot, "boxes"))) {
      const record = join(fleetRoot, "boxes", ref, "box.json")
      const box = boxSchema.parse(JSON.parse(readFileSync(record, "utf8")))
      for (const one of [box.process, ...box.helpers]) if (one) killTree(one.pid)
      const group = groupFolder(fleetRoot, ref)
      if (!existsSync(group)) continue
      writeFileSync(join(group, "cgroup.kill"), "1")
      removeGroup(group)
    }
  }
}
