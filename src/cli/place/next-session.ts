/** Which session `up` works on: an ended session is never continued, the next number starts a new one. */
import { existsSync, mkdirSync, renameSync } from "node:fs"
import { join } from "node:path"

/** The first of `name`, `name-2`, `name-3`, ... that has not ended. */
export const nextSession = (name: string, hasEnded: (session: string) => boolean): string => {
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? name : `${name}-${number}`
    if (!hasEnded(candidate)) return candidate
  }
}

/** The session before `current` in that series; undefined if `current` is the first one. */
export const sessionBefore = (current: string, name: string): string | undefined => {
  if (current === name) return undefined
  const number = Number(current.slice(name.length + 1))
  return number === 2 ? name : `${name}-${number - 1}`
}

/**
 * Moves the runner's database aside: its outbox and its channels belong to the ended session. OpenCode's record stays, so
 * that the next runner ends a process that is left.
 */
export const archiveRunnerState = (stateDir: string, ended: string): void => {
  const folder = join(stateDir, "ended", encodeURIComponent(ended))
  if (existsSync(folder)) return
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (const name of ["state.db", "state.db-wal", "state.db-shm"]) {
    if (existsSync(join(stateDir, name))) renameSync(join(stateDir, name), join(folder, name))
  }
}
