/** What large calls of the API leave in the memory of the runner. Measured as JavaScript's heap after a collection, not as RSS. */
import { Database } from "bun:sqlite"
import { heapStats } from "bun:jsc"
import { afterEach, expect, test } from "bun:test"
import { systemClock } from "../../../src/lib/clock.ts"
import { requestOverLink } from "../../../src/runner/gateway/link-requests.ts"
import { createLink } from "../../../src/runner/link/link.ts"
import { openOutboxStore } from "../../../src/runner/link/outbox-store.ts"
import { createOutbox } from "../../../src/runner/link/outbox.ts"
import { recordingLog } from "../../kit/log.ts"
import { startTestSessionAgent } from "../../kit/session-agent.ts"
import { untilTrue } from "../../kit/until-true.ts"
import { API_TOKEN, startTestGateway } from "./kit.ts"

const MB = 1024 * 1024
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

/** Strings and buffers count, too. */
const heldBytes = (): number => {
  Bun.gc(true)
  return heapStats().heapSize
}
const task = (size: number) => JSON.stringify({ task: "x".repeat(size), workspace: "w" })

test("acknowledged frames of large idempotent calls are not kept in memory", async () => {
  const agent = startTestSessionAgent({
    answer: () => {
      agent.frames.length = 0
      return { childSessionId: "s1" }
    },
  })
  cleanups.push(agent.stop)
  const db = new Database(":memory:", { strict: true })
  db.run("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")
  const link = createLink({
    url: agent.url,
    token: agent.token,
    sessionId: "s",
    version: "0",
    epoch: "e",
    outbox: createOutbox({
      store: openOutboxStore(db),
      maxBytes: 64 * MB,
      onStoreFailure: () => {},
    }),
    clock: systemClock,
    log: recordingLog([]),
    active: () => [],
    onFrame: () => {},
    onConnected: () => {},
    onEnd: () => {},
  })
  link.start()
  cleanups.push(() => link.stop(0))
  const gateway = startTestGateway({ request: requestOverLink(link.request, async () => ({})) })
  cleanups.push(() => gateway.stop())
  const call = async (key: string) => {
    const response = await fetch(`${gateway.url}/api/spawn-child`, {
      method: "POST",
      headers: { authorization: `Bearer ${API_TOKEN}`, "idempotency-key": key },
      body: task(2 * MB),
    })
    expect(await response.json()).toEqual({ childSessionId: "s1" })
  }
  await call("first")
  const before = heldBytes()
  for (let index = 0; index < 40; index += 1) await call(`k${index}`)
  await untilTrue(() => link.counters().depth === 0, "the acknowledgement of all frames")
  expect(heldBytes() - before).toBeLessThan(20 * MB)
})

test("an idle connection does not keep the body of its last request in memory", async () => {
  const gateway = startTestGateway({ request: async () => ({ childSessionId: "s1" }) })
  cleanups.push(() => gateway.stop())
  const body = task(4 * MB)
  const head = `POST /api/spawn-child HTTP/1.1\r\nHost: s\r\nAuthorization: Bearer ${API_TOKEN}\r\n`
  const call = async () => {
    let answer = ""
    let left = Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n${body}`)
    const write = (socket: { write: (bytes: Buffer) => number }) => {
      left = left.subarray(socket.write(left))
    }
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: gateway.port,
      socket: {
        open: write,
        drain: write,
        data: (_, bytes) => {
          answer += bytes.toString("latin1")
        },
      },
    })
    cleanups.push(() => socket.end())
    await untilTrue(() => answer.endsWith('{"childSessionId":"s1"}'), "the answer")
    left = Buffer.alloc(0)
  }
  await call()
  const before = heldBytes()
  for (let index = 0; index < 12; index += 1) await call()
  expect(heldBytes() - before).toBeLessThan(15 * MB)
})
