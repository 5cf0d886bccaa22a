/** Half-made copies on this machine. The name of each says which process makes it, so that those of killed ones are found. */
import { readdirSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { identityOf, isAlive } from "./local-processes.ts"

const END = ".part"
/** Drafts of earlier versions do not name their process. No copy takes so long. */
const NAMELESS_MS = 60 * 60_000

export const isDraft = (name: string): boolean => name.endsWith(END)

/** What an earlier version called it. */
export const namelessDraftOf = (path: string): string => `${path}${END}`

/** Another name with every call. The draft is renamed to `path` when it is complete. */
export const draftOf = (path: string): string => {
  const { pid, startTime } = identityOf(process.pid)
  return `${path}.${crypto.randomUUID()}.${pid}-${startTime}${END}`
}

const isLeft = (folder: string, name: string): boolean => {
  const [, pid, startTime = ""] = /\.(\d+)-(\d+)\.part$/.exec(name) ?? []
  if (pid !== undefined) return !isAlive({ pid: Number(pid), startTime })
  const changed = statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs
  return changed !== undefined && Date.now() - changed > NAMELESS_MS
}

/** `within`: the command by which a user without root removes files of its subordinate users. */
export const removeTree = (path: string, within: readonly string[] = []): void => {
  const [program, ...rest] = within
  if (program === undefined) {
    rmSync(path, { recursive: true, force: true })
    return
  }
  const command = [program, ...rest, "rm", "-rf", "--", path]
  const { exitCode, stderr } = Bun.spawnSync(command, { env: { PATH: "/usr/bin:/bin" } })
  if (exitCode !== 0) throw new Error(`${path} is not removed: ${stderr.toString().trim()}`)
}

/** Removes the drafts of processes that were killed. */
export const removeLeftDrafts = (folder: string, within: readonly string[] = []): void => {
  for (const name of readdirSync(folder)) {
    if (!isDraft(name) || !isLeft(folder, name)) continue
    try {
      removeTree(join(folder, name), within)
    } catch {
      // The copy program of the killed process still writes: it is removed at the next occasion.
    }
  }
}
