/**
 * The fleet of a hub elsewhere on a real PostgreSQL: calls without a token with names that a database does not take, and calls of
 * the hub that somebody has recorded and sends again.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { ServedFleet } from "../../src/cli/serve-fleet.ts"
import { openPostgresStore } from "../../src/fleet/store/postgres-store.ts"
import { SIGNATURE_WINDOW_MS, signedPost } from "../../src/lib/signed-request.ts"
import { memoryProvider } from "../fleet/kit/fleet.ts"
import { startPostgres, type TestPostgres } from "../fleet/kit/postgres.ts"
import { FLEET_KEY, OPERATOR_TOKEN, serveFleet } from "../fleet/kit/served-fleet.ts"
import { createManualClock } from "../kit/clock.ts"
import { recordingLog } from "../kit/log.ts"

const clock = createManualClock()
const log: string[] = []
let postgres: TestPostgres
let fleet: ServedFleet

beforeAll(async () => {
  postgres = await startPostgres()
  fleet = await serveFleet({
    // Nothing listens there: no call of these tests may get as far as the hub.
    hubUrl: "http://127.0.0.1:9",
    provider: memoryProvider(),
    store: await openPostgresStore(postgres.url),
    clock,
    log: recordingLog(log),
  })
})
afterAll(async () => {
  await fleet.stop()
  await postgres.stop()
})

const NUL = "%00"
const paths = [
  ["GET", `/api/sandbox/${NUL}/status`],
  ["GET", `/api/sandbox/x${NUL}y/history`],
  ["POST", `/api/sandbox/${NUL}/exec`],
  ["DELETE", `/api/sandbox/${NUL}`],
  ["GET", `/api/sandbox/by-chat/${NUL}`],
  ["POST", `/api/threads/${NUL}/prompt`],
  ["POST", `/api/threads/a%1b%5b2Jb/stop`],
  ["GET", `/api/sandbox/${"%27%3B--".repeat(50)}/status`],
  ["GET", `/api/sandboxes?after=${NUL}`],
] as const
const bodies = [
  ["/api/marketplace/expert/prepare-invoke", { chatSessionId: "a\0b" }],
  ["/api/threads/t/prompt", { message: "hello", messageId: "a\0b" }],
  ["/terminate-session", { sandboxId: "\0" }],
  ["/restore-session", { snapshotImageId: "\0" }],
] as const

const call = async (method: string, path: string, authorization: string, body = "{}") => {
  const response = await fetch(`${fleet.url}${path}`, {
    method,
    headers: { authorization },
    ...(method === "POST" && { body }),
  })
  await response.arrayBuffer()
  return response.status
}

describe("names that no database takes", () => {
  test.each(["", "Bearer wrong", `Bearer ${OPERATOR_TOKEN}`])(
    "a call with %p and such a name is refused, and none is a failure of the fleet",
    async (authorization) => {
      const statuses = await Promise.all([
        ...paths.map(([method, path]) => call(method, path, authorization)),
        ...bodies.map(([path, body]) => call("POST", path, authorization, JSON.stringify(body))),
      ])
      expect(statuses.filter((status) => status < 400 || status >= 500)).toEqual([])
      expect(log.filter((line) => line.includes("fleet.request-failed"))).toEqual([])
    },
  )
})

describe("a call of the hub that is sent again", () => {
  const QUESTION = { session: "s1" }
  /** What somebody between the hub and the fleet has seen of a question. */
  const record = async () =>
    (await signedPost(FLEET_KEY, `${fleet.url}/api/hub/address`, QUESTION, clock.now())).headers
  const send = async (headers: Headers, method = "POST", path = "/api/hub/address") => {
    const response = await fetch(`${fleet.url}${path}`, {
      method,
      headers,
      body: JSON.stringify(QUESTION),
    })
    return response.status
  }

  test("it is refused at every moment, also in the last one in which its signature counts", async () => {
    const recorded = await record()
    expect(await send(recorded)).toBe(200)
    const begin = clock.now()
    for (const after of [
      0,
      1,
      SIGNATURE_WINDOW_MS - 1,
      SIGNATURE_WINDOW_MS,
      SIGNATURE_WINDOW_MS + 1,
    ]) {
      clock.advance(begin + after - clock.now())
      expect([after, await send(recorded)]).toEqual([after, 401])
    }
  })

  test("it opens no other call and no other method", async () => {
    const recorded = await record()
    expect(await send(recorded, "POST", "/api/hub/activity")).toBe(401)
    expect(await send(recorded, "POST", "/api/hub/address?x=1")).toBe(401)
    expect(await send(recorded, "POST", "/api/hub/%61ddress")).toBe(404)
    expect(await send(recorded, "PUT")).toBe(404)
    expect(await send(recorded)).toBe(200)
  })
})
