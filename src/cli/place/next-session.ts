/** Which session `up` works on: an ended session is never continued, the next number starts a new one. */
import { existsSync } from "node:fs"
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
 * What the runner opens of the state directory of `up`. A part of another session is set aside and not removed: the disk is a
 * person's. `ended`: the session before this one.
 */
export const partsToOpen = (stateDir: string, session: string, ended: string | undefined) => {
  const setAside = join(stateDir, "ended", encodeURIComponent(ended ?? `before-${session}`))
  // An earlier version set only its database aside, and kept the other files for the next session.
  const isSetAside = ended === undefined || existsSync(setAside)
  return { setAside, sessionOfOldLayout: isSetAside ? session : ended }
}
