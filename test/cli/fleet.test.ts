/** `sandpiper fleet` beside a running fleet: what an operator sees and changes. Each test has a fleet with one session of its own. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { isReady } from "../../src/fleet/core/pool.ts"
import { createNoopProvider } from "../../src/fleet/providers/noop.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { writeAddress } from "../../src/hub/hosts/bun/address.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { runnerFromSource } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"
import { runnerProvider } from "../fleet/kit/runner-provider.ts"
import { startStack } from "../fleet/kit/stack.ts"

let folder = ""
let stack: ServeStack
let session = ""

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-command-"))
  stack = await startStack(folder, {
    // Its sandboxes are old enough for the sweep.
    provider: createNoopProvider(() => Date.now() - 3_600_000),
    store: openSqliteStore(":memory:"),
    costPerHour: 0.5,
  })
  mkdirSync(join(folder, "hub"), { recursive: true })
  writeAddress(folder, { url: stack.hub.url, token: CLIENT_TOKEN })
  const response = await fetch(`${stack.hub.url}/api/threads/t/resolve?wait=1`, {
    method: "POST",
    headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
  })
  session = ((await response.json()) as { readonly sessionId: string }).sessionId
})
afterEach(async () => {
  await stack.stop()
  rmSync(folder, { recursive: true, force: true })
})

const fleetAt = (stateDir: string, ...words: readonly string[]) =>
  runToEnd([...runnerFromSource, "fleet", ...words, "--state-dir", stateDir], {
    cwd: stateDir,
    env: { PATH: process.env["PATH"] ?? "", HOME: stateDir },
  })
const fleet = (...words: readonly string[]) => fleetAt(folder, ...words)

test("ls and show print the sandboxes as a table or as JSON", async () => {
  const table = await fleet("ls")
  expect(table).toMatchObject({ code: 0, err: "" })
  expect(table.out).toMatch(new RegExp(`^session .*\n${session} +running +noop +1 +sp-`))
  const shown = await fleet("show", session, "--json")
  expect(JSON.parse(shown.out)).toMatchObject({
    sessionId: session,
    status: "running",
    sandboxes: [
      {
        generation: 1,
        provider: "noop",
        image: "image:0.2.0",
        endedAt: null,
        cost: expect.any(Number),
      },
    ],
  })
  expect(await fleet("show", "none")).toMatchObject({ code: 1, out: "" })
})

test("show lists the sandboxes that a session has had, with their cost if there is a price", async () => {
  const { out } = await fleet("show", session)
  const [, , empty, head, row] = out.split("\n")
  expect(empty).toBe("")
  expect(head).toMatch(
    /^gen +created \(UTC\) +ended \(UTC\) +why +seconds +cost +provider +made from +sandbox$/,
  )
  expect(row).toMatch(
    /^1 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +- +- +\d+ +\d+\.\d{4} +noop +image:0\.2\.0 +sp-/,
  )
})

test("sweep and forget report what they did, and an impossible base snapshot says why", async () => {
  expect((await fleet("sweep", "--dry-run")).out).toBe(
    "1 sandboxes seen, 0 without a session, 0 ended, 0 snapshots that no session knows\n",
  )
  const refused = await fleet("base-snapshot")
  expect(refused.code).toBe(1)
  expect(refused.err).toContain("the provider noop cannot make base snapshots")
  expect((await fleet("forget", session)).out).toContain(`${session} is forgotten`)
  expect((await fleet("ls", "--json")).out).toContain('"sandboxes":[]')
  // Its sandbox has no session now, and its name is what the provider knows it by.
  expect((await fleet("sweep", "--dry-run")).out).toMatch(
    /^1 sandboxes seen, 1 without a session, 0 ended.*\nsandbox sp-\S+\n$/,
  )
})

test("ls and show mark a sandbox that waits in the warm pool until a session has it", async () => {
  const place = mkdtempSync(join(tmpdir(), "fleet-command-pool-"))
  const provider = runnerProvider()
  const store = openSqliteStore(":memory:")
  const pooled = await startStack(place, { provider, store, poolSize: 1 })
  try {
    mkdirSync(join(place, "hub"), { recursive: true })
    writeAddress(place, { url: pooled.hub.url, token: CLIENT_TOKEN })
    const ready = async () =>
      (await store.pooled()).find(({ kind, life }) => kind === "pool" && isReady(life))
    await untilTrue(async () => (await ready()) !== undefined, "a sandbox of the pool")
    const id = (await ready())?.id ?? ""
    const shows = async (...words: readonly string[]) => (await fleetAt(place, ...words)).out
    const marked = new RegExp(`^${id} +running \\(pool\\) +noop +1 +sp-`, "m")
    expect(await shows("ls")).toMatch(marked)
    expect(await shows("show", id)).toMatch(marked)
    const entry = { sessionId: id, status: "running", inPool: true }
    const { sandboxes } = JSON.parse(await shows("ls", "--json")) as { sandboxes: object[] }
    expect(sandboxes).toContainEqual(expect.objectContaining(entry))
    expect(JSON.parse(await shows("show", id, "--json"))).toMatchObject(entry)
    const claimed = await fetch(`${pooled.hub.url}/api/threads/t/resolve?wait=1`, {
      method: "POST",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    })
    expect(await claimed.json()).toMatchObject({ sessionId: id, status: "running" })
    expect(await shows("ls")).toMatch(new RegExp(`^${id} +running +noop +1 +sp-`, "m"))
    expect(JSON.parse(await shows("show", id, "--json"))).not.toHaveProperty("inPool")
  } finally {
    await provider.stop()
    await pooled.stop()
    rmSync(place, { recursive: true, force: true })
  }
})

test("base-snapshot says that there is one, and with --again it asks for a new one", async () => {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) =>
      Response.json({ snapshotId: "base-1", isNew: new URL(url).searchParams.has("again") }),
  })
  const place = mkdtempSync(join(tmpdir(), "fleet-command-base-"))
  mkdirSync(join(place, "hub"))
  writeAddress(place, { url: server.url.origin, token: CLIENT_TOKEN })
  const known = await fleetAt(place, "base-snapshot")
  expect(known.out).toBe("base-1 exists for this version; --again makes a new one\n")
  expect((await fleetAt(place, "base-snapshot", "--again")).out).toBe("base-1 was made\n")
  await server.stop(true)
  rmSync(place, { recursive: true })
})
