/** Enters a session up to a step and is then killed. Arguments: the state directory, the session, the home, the step. */
import { systemClock } from "../../../src/lib/clock.ts"
import { stepsToEnter } from "../../../src/runner/state/enter-session.ts"
import { silentLog as log } from "../../kit/log.ts"

const [stateDir = "", sessionId = "", home = "", last = ""] = process.argv.slice(2)
for (const { name, run } of stepsToEnter({
  stateDir,
  sessionId,
  homes: [home],
  clock: systemClock,
  log,
})) {
  await run()
  if (name === last) process.kill(process.pid, "SIGKILL")
}
