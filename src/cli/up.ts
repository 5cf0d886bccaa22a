/** `sandpiper up`: session agent, runner and chat on this machine, until the chat or a signal ends them. */
import { systemClock, within } from "../lib/clock.ts"
import { version } from "../lib/version.ts"
import { startReaper } from "../runner/host/reaper.ts"
import { type Command, STOP_LIMIT_MS, untilSignal } from "./command.ts"

export const up: Command = async ({ settings, log }) => {
  const signalled = untilSignal()
  const reaper = startReaper({ clock: systemClock, log })
  const { startLocalStack } = await import("./local-stack.ts")
  const stack = await startLocalStack({
    settings,
    version,
    log,
    input: process.stdin,
    output: process.stdout,
    interactive: process.stdin.isTTY === true,
  })
  await Promise.race([stack.finished, signalled])
  await within(systemClock, STOP_LIMIT_MS, stack.stop())
  reaper.stop()
  return 0
}
