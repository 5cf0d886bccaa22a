/**
 * The runner's watchdog: OpenCode and others outlive a killed runner, so that the next one takes them over. If none comes, the
 * watchdog ends them. Before the runner takes anything over, it has ended the watchdog of the former one.
 */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { watchdogFolder } from "../lib/state-folders.ts"
import { startWatchdog, type Watchdog } from "../lib/watchdog.ts"
import type { Settings } from "../settings/settings.ts"
import { endAbandoned } from "./state/end-left-processes.ts"

export interface JoinWatchdogOptions {
  readonly config: Settings
  /** The command that starts this program. */
  readonly self: readonly string[]
  readonly clock: Clock
  readonly log: Log
}

export const joinWatchdog = ({ config, self, clock, log }: JoinWatchdogOptions) => {
  const { stateDir } = config
  let watchdog: Watchdog | undefined
  return {
    start: async (): Promise<void> => {
      // With the first process of a sandbox all others end.
      if (process.pid === 1) return
      watchdog = startWatchdog({
        folder: watchdogFolder(stateDir),
        seconds: config.orphanSeconds,
        command: [...self, "end-orphans", "runner", "--state-dir", stateDir],
        environment: config.environment,
        clock,
        log,
      })
      if (!watchdog.isSuccessor) return
      const processes = await endAbandoned(stateDir, clock)
      if (processes > 0) log.warn("runner.abandoned-ended", { processes })
    },
    /** When everything that the runner has started has ended. */
    release: (): void => watchdog?.release(),
  }
}
