/** A hub as a separate process, which a test can kill. Arguments: state directory, port, session, config as JSON. */
import { hashOf } from "../../../src/hub/keys.ts"
import { startLocalHub } from "../../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { createLog } from "../../../src/lib/log.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "./hub.ts"

const [stateDir = "", port = "0", name = "s1", config = "{}"] = process.argv.slice(2)
const hub = await startLocalHub({
  stateDir,
  workDir: stateDir,
  port: Number(port),
  environment: {},
  clock: systemClock,
  log: createLog({
    level: "warn",
    format: "json",
    secrets: [],
    write: (line) => process.stderr.write(`${line}\n`),
    now: Date.now,
  }),
  clientToken: CLIENT_TOKEN,
})
const session = hub.create(name)
// The config first: a runner that is waiting connects as soon as its token counts.
session.configure(JSON.parse(config) as object)
session.setRunnerToken(await hashOf(RUNNER_TOKEN))
await hub.resume()
process.stdout.write(`${hub.port}\n`)
