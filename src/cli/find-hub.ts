/** Finds the session agent that `sandpiper up` runs on this machine. */
import { type HubAddress, readAddress } from "../hub/hosts/bun/address.ts"
import type { Settings } from "../settings/settings.ts"
import { SettingsError } from "../settings/settings-error.ts"
import { findRunningPlace, listPlaces, realPath, runningOwner } from "./place/place.ts"

/**
 * The state directory that a command works on: the given one, else the one of the `up` that runs for this directory, else
 * the runner's own.
 */
export const stateDirOf = ({ given, stateDir, workDir }: Settings): string =>
  given.has("stateDir")
    ? stateDir
    : (findRunningPlace(stateDir, realPath(workDir))?.stateDir ?? stateDir)

export const findHub = (settings: Settings): HubAddress => {
  const address = readAddress(stateDirOf(settings))
  if (address) return address
  if (settings.given.has("stateDir"))
    throw new SettingsError(
      `no session agent runs on ${settings.stateDir}: start one with \`sandpiper up\`, or change SANDPIPER_STATE_DIR (--state-dir)`,
    )
  const running = listPlaces(settings.stateDir).filter(runningOwner)
  const elsewhere =
    running.length === 0
      ? ""
      : `, or choose a directory where one runs with --work-dir: ${running.map(({ directory }) => directory).join(", ")}`
  throw new SettingsError(
    `no session agent runs for ${realPath(settings.workDir)}: start one there with \`sandpiper up\`${elsewhere}`,
  )
}

/** The session that a command talks to: the given one, else the one that `up` works on. */
export const sessionOf = ({ given, sessionId }: Settings, { session }: HubAddress): string =>
  given.has("sessionId") ? sessionId : (session ?? sessionId)
