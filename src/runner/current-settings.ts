/** The settings as they are now. They change only when the sandbox is restored and its secrets are reread. */
import { describeError, type Log } from "../lib/log.ts"
import type { Settings } from "../settings/settings.ts"

export interface CurrentSettings {
  readonly get: () => Settings
  /** Rereads the settings after a restore; keeps the previous ones if that fails. */
  readonly reread: () => void
  /** The runner token to redial with after a restore; undefined if the settings cannot be reread. */
  readonly rereadRunnerToken: () => string | undefined
}

export interface CurrentSettingsOptions {
  readonly initial: Settings
  /** Absent where no file or environment can be reread, as under `sandpiper up`. */
  readonly readAgain: (() => Settings) | undefined
  readonly log: Log
}

export const createCurrentSettings = (options: CurrentSettingsOptions): CurrentSettings => {
  const { readAgain, log } = options
  let current = options.initial
  return {
    get: () => current,
    reread: () => {
      if (readAgain === undefined) return
      try {
        current = readAgain()
        log.hide(current.secrets)
        log.info("secrets.reread")
      } catch (error) {
        log.warn("secrets.reread-failed", { error: describeError(error) })
      }
    },
    rereadRunnerToken: () => (readAgain === undefined ? undefined : current.runnerToken),
  }
}
