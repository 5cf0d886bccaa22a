/** A session agent to be attacked, with one session. Argument: its state directory. */
import { startLocalHub } from "../../../src/hub/hosts/bun/local-hub.ts"
import { hashOf } from "../../../src/hub/keys.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../../hub/kit/hub.ts"
import { silentLog } from "../../kit/log.ts"
import { startMonitor } from "../kit/monitor.ts"

const [stateDir = ""] = process.argv.slice(2)
const hub = await startLocalHub({
  stateDir,
  workDir: stateDir,
  port: 0,
  environment: {},
  clock: systemClock,
  log: silentLog,
  clientToken: CLIENT_TOKEN,
})
hub.create("s1").setRunnerToken(await hashOf(RUNNER_TOKEN))
process.stdout.write(`${JSON.stringify({ port: hub.port, monitor: startMonitor() })}\n`)
