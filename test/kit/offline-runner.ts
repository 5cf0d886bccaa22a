/**
 * The runner's end of the link as a separate program, so that its memory can be measured. It queues frames while the
 * session agent is unreachable, delivers them after it is back, and prints its peak memory in MB.
 * Arguments: address, token, state directory, count.
 */
import { systemClock } from "../../src/lib/clock.ts"
import { openStateDb } from "../../src/lib/state-db.ts"
import { openOutboxStore, readEpoch } from "../../src/runner/link/outbox-store.ts"
import { createOutbox } from "../../src/runner/link/outbox.ts"
import { untilTrue } from "./until-true.ts"
import { createLink } from "../../src/runner/link/link.ts"
import { loopbackPace } from "../../src/runner/link/retry-pace.ts"
import { silentLog } from "./log.ts"

const [url = "", token = "", stateDir = "", count = "0"] = process.argv.slice(2)
const db = openStateDb(stateDir)
const outbox = createOutbox({
  store: openOutboxStore(db),
  maxBytes: 64 * 1024 * 1024,
  onStoreFailure: (error) => {
    throw error
  },
})
const link = createLink({
  url,
  token,
  sessionId: "offline",
  version: "test",
  epoch: readEpoch(db, () => crypto.randomUUID()),
  outbox,
  clock: systemClock,
  log: silentLog,
  policy: {
    pace: { ...loopbackPace, backoff: { min: 50, max: 200 }, quickMaxMs: 200 },
    stableMs: 1000,
    maxRefusals: 5,
  },
  active: () => [],
  onFrame: () => {},
  onConnected: () => {},
  onEnd: () => {},
})
link.start()
for (let index = 0; index < Number(count); index += 1) {
  link.send({
    type: "message.part.tool-update",
    turnId: "turn",
    callId: `call_${index}`,
    toolName: "bash",
    status: "completed",
    result: `what the tool printed, line ${index}`,
    messageId: "m1",
  })
  // Sleep: ten minutes of frames do not arrive in one burst: yields so that small groups are committed separately.
  if (index % 20 === 0) await Bun.sleep(0)
}
process.stdout.write("queued\n")
await untilTrue(() => outbox.isEmpty(), "empty outbox")
const status = await Bun.file("/proc/self/status").text()
process.stdout.write(`${Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024}\n`)
await link.stop(1000)
