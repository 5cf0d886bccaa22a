/** `sandpiper hook pre-snapshot|post-snapshot`: called by the platform around a snapshot of the sandbox. */
import { askControl, findControl } from "../runner/host/control-socket.ts"
import { stateDirOf } from "./find-hub.ts"
import { type Command, print } from "./command.ts"

/** The sum of the runner's own limits for this (turns, flush, services) is below it. */
const HOOK_LIMIT_MS = 50_000

export const hook: Command = async ({ settings }) => {
  const control = await findControl(stateDirOf(settings))
  const report = await askControl(control, `/hooks/${settings.operand}`, {}, HOOK_LIMIT_MS)
  print(`${JSON.stringify(report)}\n`)
  return 0
}
