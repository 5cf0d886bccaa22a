/** What every command gets and returns, and helpers that several commands share. */
import type { Log } from "../lib/log.ts"
import { terminalText } from "../lib/visible-text.ts"
import type { Arguments } from "../settings/arguments.ts"
import type { Settings } from "../settings/settings.ts"

export interface CommandContext {
  readonly settings: Settings
  readonly args: Arguments
  readonly log: Log
  /** Reads flags, environment and secrets file again, for a sandbox that was restored from a snapshot. */
  readonly rereadSettings: () => Settings
}

/** Resolves to the exit code. */
export type Command = (context: CommandContext) => Promise<number>

/** Shutdown deadline, below the ten seconds after which a platform kills the process. */
export const STOP_LIMIT_MS = 9500

/** On a terminal nothing in the text can act on it: names and output of the agent's are in it. */
export const print = (text: string): void =>
  void process.stdout.write(process.stdout.isTTY === true ? terminalText(text) : text)

/** Call it before any other work: as PID 1, a signal without a handler is ignored. */
export const untilSignal = (): Promise<{ readonly code: number; readonly why: string }> =>
  new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => resolve({ code: 0, why: `received ${signal}` }))
    }
  })
