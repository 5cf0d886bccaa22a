/** `sandpiper link`: another login link for the page of the running `up`. */
import { SettingsError } from "../settings/settings-error.ts"
import { type Command, print } from "./command.ts"
import { findHub, stateDirOf } from "./find-hub.ts"
import { newLoginLink } from "./page-link.ts"

export const link: Command = async ({ settings }) => {
  const { page } = findHub(settings)
  if (page === undefined)
    throw new SettingsError(
      "the running `up` serves no page: set PAGE_ORIGIN and SANDBOX_ORIGIN both or neither, and start it again",
    )
  print(`${newLoginLink(stateDirOf(settings), page, Date.now())}\n`)
  return 0
}
