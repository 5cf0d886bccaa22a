/** Opens the place of a working directory for `up`: finds or creates it, locks it, and takes over state of older versions. */
import { Database } from "bun:sqlite"
import { existsSync, mkdirSync, readdirSync, renameSync } from "node:fs"
import { join } from "node:path"
import { readAddress } from "../../hub/hosts/bun/address.ts"
import { plannedDirectory } from "../../runner/host/prepare-repositories.ts"
import { readProcess } from "../../lib/process-identity.ts"
import { isTaken } from "../../runner/host/processes.ts"
import { agentDirectories } from "../../runner/opencode/config/config-directories.ts"
import type { Settings } from "../../settings/settings.ts"
import { SettingsError } from "../../settings/settings-error.ts"
import { GATEWAY_PORT_LOCK } from "./gateway-port.ts"
import { type Lock, takeLock } from "./lock.ts"
import { type Place, placeName, placesFolder, readPlace, realPath, writePlace } from "./place.ts"

export type Opened =
  | { readonly place: Place; readonly lock: Lock }
  /** Another `up` has the lock. */
  | { readonly busy: Place }

export interface OpenOptions {
  /** Opens a place that no other `up` has used. */
  readonly fresh: boolean
  readonly now: () => number
}

export const openPlace = (settings: Settings, { fresh, now }: OpenOptions): Opened => {
  const directory = realPath(settings.workDir)
  const agentDirectory = realPath(plannedDirectory(directory, settings.repositories))
  const stateDir = settings.given.has("stateDir")
    ? givenStateDir(settings.stateDir, directory, agentDirectory, fresh)
    : ownStateDir(settings.stateDir, directory, agentDirectory, fresh)
  const lock = takeLock(stateDir)
  if (!lock) return { busy: readPlace(stateDir) ?? { stateDir, directory } }
  const startTime = readProcess(process.pid)?.startTime ?? 0
  const place = { stateDir, directory, owner: { pid: process.pid, startTime, since: now() } }
  writePlace(place)
  return { place, lock }
}

/** A state directory that the user has chosen belongs to one working directory. */
const givenStateDir = (
  stateDir: string,
  directory: string,
  agentDirectory: string,
  fresh: boolean,
): string => {
  if (fresh)
    throw new SettingsError(
      "--new chooses a state directory itself: leave out SANDPIPER_STATE_DIR (--state-dir)",
    )
  const before = readPlace(stateDir)?.directory
  const agentBefore = before === undefined ? lastAgentDirectory(stateDir) : undefined
  const other =
    before !== undefined && before !== directory
      ? before
      : agentBefore !== undefined && agentBefore !== agentDirectory
        ? agentBefore
        : undefined
  if (other === undefined) return stateDir
  throw new SettingsError(
    `SANDPIPER_STATE_DIR (--state-dir) ${stateDir} holds the session of ${other}, not of ${directory}: choose another one, or leave it out`,
  )
}

const ownStateDir = (
  base: string,
  directory: string,
  agentDirectory: string,
  fresh: boolean,
): string => {
  const folder = placesFolder(base)
  // A user that the agent runs as must be able to reach its files; it cannot list this folder.
  mkdirSync(folder, { recursive: true, mode: 0o711 })
  const first = join(folder, placeName(directory))
  if (fresh) return freshStateDir(first)
  const isInterrupted = existsSync(draftOf(first))
  if (isInterrupted || (!existsSync(first) && lastAgentDirectory(base) === agentDirectory))
    takeOver(base, first)
  return first
}

/** The first place of a directory has the plain name, the others `.2`, `.3`, ... */
const freshStateDir = (first: string): string => {
  for (let number = 2; ; number += 1) {
    const candidate = `${first}.${number}`
    try {
      mkdirSync(candidate, { mode: 0o700 })
      return candidate
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    }
  }
}

/** The working directory of OpenCode's last session in this state directory. */
const lastAgentDirectory = (stateDir: string): string | undefined => {
  const file = [
    join(agentDirectories(stateDir).data, "opencode.db"),
    // Where earlier versions had it.
    join(stateDir, "opencode", "xdg", "data", "opencode", "opencode.db"),
  ].find((path) => existsSync(path))
  if (file === undefined) return undefined
  try {
    const db = new Database(file, { readonly: true })
    const row = db
      .query<{ directory: string }, []>(
        "SELECT directory FROM session ORDER BY time_updated DESC LIMIT 1",
      )
      .get()
    db.close()
    return row?.directory
  } catch {
    return undefined
  }
}

/** Entries of `base` that belong to all places. */
const shared = ["places", GATEWAY_PORT_LOCK]

const draftOf = (stateDir: string): string => `${stateDir}.moving`

/** Earlier versions kept one state for all directories, directly in `base`. */
const takeOver = (base: string, stateDir: string): void => {
  const { url } = readAddress(base) ?? {}
  if (url !== undefined && isTaken(Number(new URL(url).port)))
    throw new Error(`an earlier version of \`sandpiper up\` still runs here (${url}): end it first`)
  const draft = draftOf(stateDir)
  mkdirSync(draft, { recursive: true, mode: 0o700 })
  for (const name of readdirSync(base)) {
    if (!shared.includes(name)) renameSync(join(base, name), join(draft, name))
  }
  renameSync(draft, stateDir)
}
