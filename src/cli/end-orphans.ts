/** `sandpiper end-orphans`: what a watchdog becomes when its time is over, see lib/watchdog.ts. */
import { endOrphanedBoxes } from "../fleet/providers/local-orphans.ts"
import { systemClock } from "../lib/clock.ts"
import { sessionFolder, watchdogFolder } from "../lib/state-folders.ts"
import { hasOwner } from "../lib/watchdog.ts"
import { endLeftProcesses } from "../runner/state/end-left-processes.ts"
import type { Command } from "./command.ts"
import { localRoot } from "./local-sandboxes.ts"

export const endOrphans: Command = async ({ settings }) => {
  const { stateDir, operand } = settings
  if (operand === "sandboxes") {
    await endOrphanedBoxes(localRoot(stateDir), systemClock)
    return 0
  }
  if (hasOwner(watchdogFolder(stateDir))) return 0
  await endLeftProcesses(stateDir, sessionFolder(stateDir), systemClock)
  return 0
}
