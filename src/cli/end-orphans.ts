/** `sandpiper end-orphans`: what a watchdog becomes when its time is over, see lib/watchdog.ts. */
import { systemClock } from "../lib/clock.ts"
import { sessionFolder, watchdogFolder } from "../lib/state-folders.ts"
import { hasOwner } from "../lib/watchdog.ts"
import { endLeftProcesses } from "../runner/state/end-left-processes.ts"
import type { Command } from "./command.ts"

export const endOrphans: Command = async ({ settings }) => {
  const { stateDir } = settings
  if (hasOwner(watchdogFolder(stateDir))) return 0
  await endLeftProcesses(stateDir, sessionFolder(stateDir), systemClock)
  return 0
}
