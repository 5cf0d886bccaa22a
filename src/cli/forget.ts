/** `sandpiper forget DIR`: deletes the sessions of a directory and all that `up` has stored for it. */
import { rm } from "node:fs/promises"
import { resolve } from "node:path"
import { SettingsError } from "../settings/settings-error.ts"
import { type Command, print } from "./command.ts"
import { takeLock } from "./place/lock.ts"
import { describeOwner } from "./place/owner-text.ts"
import { listPlaces, realPath } from "./place/place.ts"

export const forget: Command = async ({ settings, args }) => {
  if (settings.given.has("stateDir"))
    throw new SettingsError(
      "forget deletes from the default state directory: leave out SANDPIPER_STATE_DIR (--state-dir)",
    )
  const directory = realPath(resolve(args.directory ?? ""))
  const places = listPlaces(settings.stateDir).filter((place) => place.directory === directory)
  if (places.length === 0)
    throw new SettingsError(
      `nothing is stored for ${directory}: \`sandpiper sessions\` lists the directories`,
    )
  for (const { stateDir, owner } of places) {
    const lock = takeLock(stateDir)
    if (!lock)
      throw new Error(`\`up\` runs in ${directory} (${describeOwner(owner)}): end it first`)
    await rm(stateDir, { recursive: true, force: true })
    lock.release()
  }
  print(`The sessions of ${directory} are deleted. Its files are unchanged.\n`)
  return 0
}
