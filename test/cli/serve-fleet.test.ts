/** The server of a fleet without a hub in its process: large requests, a hub that is away, a provider without snapshots. */
import { afterEach, expect, test } from "bun:test"
import type { ServedFleet } from "../../src/cli/serve-fleet.ts"
import { createNoopProvider } from "../../src/fleet/providers/noop.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { lifeWith } from "../fleet/kit/life.ts"
import { OPERATOR_TOKEN, serveFleet } from "../fleet/kit/served-fleet.ts"

const MEGABYTE = 1024 * 1024
const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

const start = async (gateway: string): Promise<ServedFleet> => {
  const store = openSqliteStore(":memory:")
  const life = lifeWith({ wanted: "running", phase: "running", ref: "box" })
  const environment = { JWT_SECRET: "a gateway key of the caller" }
  await store.add(
    { id: "s", kind: "external", tenant: "user:a", provider: "noop", environment },
    life,
    Date.now(),
  )
  const fleet = await serveFleet({
    hubUrl: "http://127.0.0.1:1",
    provider: {
      ...createNoopProvider(Date.now),
      list: async function* () {
        yield { ref: "box", state: "running", session: "s", generation: 0, ...unknownTimes }
      },
      address: async () => ({ is: "ok", value: { url: gateway, headers: {} } }),
    },
    store,
  })
  ends.push(fleet.stop)
  return fleet
}
const unknownTimes = { createdAt: undefined, expiresAt: undefined }

test("an upload may be larger than the body of another route", async () => {
  const sizes: number[] = []
  const gateway = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      sizes.push((await request.arrayBuffer()).byteLength)
      return Response.json({})
    },
  })
  ends.push(() => gateway.stop(true))
  const fleet = await start(gateway.url.origin)
  const headers = { authorization: `Bearer ${OPERATOR_TOKEN}` }
  const form = new FormData()
  form.append("file", new File([new Uint8Array(20 * MEGABYTE)], "large.bin"))
  const url = `${fleet.url}/api/sandbox/s`
  const uploaded = await fetch(`${url}/uploads`, { method: "POST", headers, body: form })
  expect(await uploaded.json()).toEqual({ paths: ["uploads/large.bin"] })
  expect(sizes).toEqual([20 * MEGABYTE])
  const body = "x".repeat(9 * MEGABYTE)
  const large = await fetch(`${url}/exec`, { method: "POST", headers, body })
  expect(large.status).toBe(413)
})

test("a report of the hub above its limit is refused before its end is read", async () => {
  const fleet = await start("http://127.0.0.1:1")
  let sent = 0
  // It never ends: an answer shows that the fleet has not waited for the end.
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      sent += 1
      if (sent <= 40) controller.enqueue(new Uint8Array(4096))
      else await new Promise<never>(() => {})
    },
  })
  const response = await fetch(`${fleet.url}/api/hub/activity`, { method: "POST", body })
  expect(response.status).toBe(413)
})

test("a prompt while the hub is away is answered with 503 and a time to try again", async () => {
  const fleet = await start("http://127.0.0.1:1")
  const response = await fetch(`${fleet.url}/api/threads/T:1/prompt`, {
    method: "POST",
    headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
    body: JSON.stringify({ message: "hello" }),
  })
  expect(response.status).toBe(503)
  expect(response.headers.get("retry-after")).toBe("5")
  expect(await response.json()).toMatchObject({ code: "hub-away" })
})

test("a sandbox of a provider without snapshots cannot be hibernated, and the caller is told at once", async () => {
  const fleet = await start("http://127.0.0.1:1")
  const post = async (path: string, body = {}) => {
    const response = await fetch(`${fleet.url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: await response.json() }
  }
  const refused = { status: 409, body: { code: "not-supported" } }
  expect(await post("/api/sandbox/s/hibernate?wait=1")).toMatchObject(refused)
  expect(await post("/hibernate-session", { sandboxId: "box" })).toMatchObject(refused)
})
