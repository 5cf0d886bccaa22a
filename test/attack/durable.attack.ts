/** The hub as Durable Objects on the real workerd: callers without a token, by names of objects and by the calls between them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { Database } from "bun:sqlite"
import { join } from "node:path"
import { bundleWorker, startWorkerd, type Workerd } from "../hub/kit/workerd.ts"

const NAMES = 8
const TRIES = 30
let workerd: Workerd

beforeAll(async () => {
  workerd = await startWorkerd(await bundleWorker(), {
    FLEET_URL: "http://127.0.0.1:9",
    FLEET_KEY: "a key of the fleet for tests only",
  })
})
afterAll(() => workerd.stop())

/** Without a kept connection: an answer before the end of a body closes it. */
const call = async (
  path: string,
  {
    headers = {},
    ...init
  }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Response> => {
  const response = await fetch(`${workerd.url}${path}`, {
    ...init,
    keepalive: false,
    headers: { connection: "close", ...headers },
  })
  await response.arrayBuffer()
  return response
}

/** How many objects of this class have stored something. */
const stored = (name: string): number =>
  [...new Bun.Glob(`**/*${name}/*.sqlite`).scanSync(workerd.folder)].filter((file) => {
    const db = new Database(join(workerd.folder, file), { readonly: true })
    const query =
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'"
    const tables = db.query(query).all()
    db.close()
    return tables.length > 0
  }).length

test("guessed names of hooks, sessions and calls of the fleet are refused and store nothing", async () => {
  const [stores, sessions] = [stored("SharedStore"), stored("SessionAgent")]
  const statuses = new Set<number>()
  for (let index = 0; index < NAMES; index += 1) {
    const headers = { "cf-connecting-ip": `192.0.2.${index}` }
    const answers = await Promise.all([
      call(`/hooks/store${index}.trigger`, { method: "POST", headers, body: "{}" }),
      call(`/hooks/trigger${index}`, { method: "POST", headers, body: "{}" }),
      call(`/sessions/guess${index}?token=guess`, { headers }),
      call(`/fleet/sessions/guess${index}/open`, { method: "POST", headers, body: "{}" }),
    ])
    for (const { status } of answers) statuses.add(status)
  }
  expect(statuses).toEqual(new Set([401, 404]))
  expect(stored("SharedStore")).toBe(stores)
  expect(stored("SessionAgent")).toBe(sessions)
})

test("no path of the worker leads to the calls between objects", async () => {
  const paths = [
    "/calls/terminate",
    "/calls/verifyKey",
    "//calls/provision",
    "/sessions/../calls/provision",
    "/sessions/%2e%2e/calls/provision",
    "/sessions/calls%2fprovision",
    "/hub/calls/provision",
    "/hub//calls/provision",
    "/hooks/..%2fcalls%2fanswer",
    "/fleet/sessions/..%2f..%2fcalls/provision",
  ]
  const body = JSON.stringify(["s1", "user:local", {}])
  for (const path of paths) {
    const { status } = await call(path, { method: "POST", body })
    expect([path, status >= 400 && status < 500]).toEqual([path, true])
  }
})

test("wrong tokens from many addresses of one IPv6 network are limited, and the right one still passes", async () => {
  const statuses: number[] = []
  for (let index = 0; index < TRIES; index += 1) {
    const headers = {
      "cf-connecting-ip": `2001:db8:1:2::${index.toString(16)}`,
      authorization: "Bearer guess",
    }
    statuses.push((await call("/sessions", { headers })).status)
  }
  expect(statuses[0]).toBe(401)
  expect(statuses.at(-1)).toBe(429)
  const headers = {
    "cf-connecting-ip": "2001:db8:1:2::1",
    authorization: `Bearer ${workerd.clientToken}`,
  }
  expect((await call("/sessions", { headers })).status).toBe(200)
})
