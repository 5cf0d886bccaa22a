/** The history of a session's sandboxes, as the keeper, the sweep and the caretaker write it, and as the API shows it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SignJWT } from "jose"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { newLife } from "../../src/fleet/core/life.ts"
import { createMetrics } from "../../src/fleet/metrics.ts"
import { createNoopProvider } from "../../src/fleet/providers/noop.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import type { FleetStore, StoredSession } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { createSweeper } from "../../src/fleet/sweeper.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createManualClock } from "../kit/clock.ts"
import { keeperOn, memoryProvider, silentLog, testCaretaker } from "./kit/fleet.ts"
import { lifeWith } from "./kit/life.ts"
import { startStack } from "./kit/stack.ts"

const DAY = 86_400_000
const session = { id: "s", tenant: "user:a", provider: "noop", environment: {} } as const
const limit = () => AbortSignal.timeout(60_000)
const runs = ({ life }: StoredSession) => life.phase === "running"

const sweeperOf = async (
  store: FleetStore,
  provider: SandboxProvider,
  now: () => number = Date.now,
) =>
  createSweeper({
    store,
    provider,
    keeper: (await keeperOn(store, provider)).keeper,
    deployment: await store.deployment(),
    replica: "r1",
    clock: { ...systemClock, now },
    log: silentLog,
  })

describe("the keeper", () => {
  test("each sandbox of a session has a record: paused time does not count, and the reason of its end is stored", async () => {
    const store = openSqliteStore(":memory:")
    let now = 100 * DAY
    const clock = { ...systemClock, now: () => now }
    const metrics = createMetrics()
    const provider = memoryProvider()
    const { keeper } = await keeperOn(store, provider, "r1", { clock, metrics, costPerHour: 3600 })
    await keeper.add(session)
    await keeper.want("s", "running")
    await keeper.waitFor("s", runs, limit())
    now += 60_000
    await keeper.want("s", "asleep")
    await keeper.waitFor("s", ({ life }) => life.phase === "paused", limit())
    now += 600_000
    await keeper.want("s", "running")
    await keeper.waitFor("s", runs, limit())
    now += 30_000
    // The provider has ended it.
    await provider.terminate("sp-s-1")
    await keeper.seen("s", [])
    await keeper.waitFor("s", (row) => runs(row) && row.life.ref === "sp-s-2", limit())
    now += 5000
    await keeper.want("s", "ended")
    await keeper.waitFor("s", ({ life }) => life.phase === "ended", limit())
    expect(await store.history("s", "user:a", 10)).toEqual([
      {
        session: "s",
        tenant: "user:a",
        provider: "noop",
        costPerHour: 3600,
        generation: 1,
        ref: "sp-s-1",
        image: "image:base",
        createdAt: 100 * DAY,
        endedAt: 100 * DAY + 690_000,
        whyEnded: "gone",
        seconds: 90,
        countedAt: undefined,
      },
      {
        session: "s",
        tenant: "user:a",
        provider: "noop",
        costPerHour: 3600,
        generation: 2,
        ref: "sp-s-2",
        image: "image:base",
        createdAt: 100 * DAY + 690_000,
        endedAt: 100 * DAY + 695_000,
        whyEnded: "session-ended",
        seconds: 5,
        countedAt: undefined,
      },
    ])
    // The owner's day and the counter have the same seconds.
    expect(await store.secondsOf("user:a", 100)).toBe(95)
    expect(metrics.text([])).toMatch(/^sandpiper_seconds_total\{[^}]+\} 95$/m)
  })

  test("a create whose answer is lost and one whose replica died have one record each", async () => {
    for (const kind of ["lost", "died"]) {
      const store = openSqliteStore(":memory:")
      const lost = kind === "lost" ? ["create"] : []
      const inner = memoryProvider({}, (call) => (lost.pop() === call ? "after" : undefined))
      const hanging: SandboxProvider = {
        ...inner,
        create: async (spec, signal) => {
          const made = await inner.create(spec, signal)
          return kind === "lost" ? made : new Promise(() => {})
        },
      }
      const first = await keeperOn(store, hanging, "dead")
      await first.keeper.add(session)
      await first.keeper.want("s", "running")
      if (kind === "died")
        await store.change("s", Date.now(), (row) => ({ ...row, callUntil: Date.now() - 1 }))
      const second = await keeperOn(store, inner, "alive")
      second.keeper.start()
      await second.keeper.waitFor("s", runs, limit())
      await second.keeper.stop()
      const records = await store.history("s", "user:a", 10)
      expect(records.map(({ ref, generation, endedAt }) => [ref, generation, endedAt])).toEqual([
        ["sp-s-1", 1, undefined],
      ])
    }
  })

  test("a second sandbox of a session has a record, which ends when it is terminated", async () => {
    const store = openSqliteStore(":memory:")
    const deployment = await store.deployment()
    const provider = memoryProvider()
    const { keeper } = await keeperOn(store, provider)
    await keeper.add(session)
    await keeper.want("s", "running")
    await keeper.waitFor("s", runs, limit())
    const labels = { deployment, tenant: "user:a", session: "s", generation: "1" }
    await provider.create(
      {
        session: "s",
        generation: 1,
        name: "stray",
        labels,
        image: { kind: "image", id: "base" },
        environment: {},
        volumes: [],
        ports: [],
        resources: {},
        idleMs: 1,
        lifeMs: 1,
      },
      limit(),
    )
    await (await sweeperOf(store, provider)).sweep()
    await keeper.waitFor("s", ({ life }) => life.doomed.length === 0 && !life.pending, limit())
    const records = await store.history("s", "user:a", 10)
    expect(records.map(({ ref, whyEnded }) => [ref, whyEnded])).toEqual(
      expect.arrayContaining([
        ["sp-s-1", undefined],
        ["stray", "stray"],
      ]),
    )
    expect(records).toHaveLength(2)
  })
})

/** A session with a running sandbox whose record was deleted. */
const forgotten = async () => {
  const store = openSqliteStore(":memory:")
  const provider = memoryProvider()
  const { keeper } = await keeperOn(store, provider)
  await keeper.add(session)
  await keeper.want("s", "running")
  await keeper.waitFor("s", runs, limit())
  await store.forget("s")
  return { store, provider, keeper }
}

test("the sweep ends the record of a forgotten session when its sandbox is gone, and not before", async () => {
  const { store, provider } = await forgotten()
  const why = async () => (await store.history("s", "user:a", 10)).map(({ whyEnded }) => whyEnded)
  // It is younger than ten minutes, so it is not ended yet.
  await (await sweeperOf(store, provider)).sweep()
  expect(await why()).toEqual([undefined])
  await (await sweeperOf(store, provider, () => Date.now() + 3_600_000)).sweep()
  expect(await why()).toEqual(["forgotten"])
})

test("a session whose record was forgotten goes on, and the record of its former sandbox ends when that is terminated", async () => {
  const { store, provider, keeper } = await forgotten()
  await keeper.add(session, { generation: 1 })
  await keeper.want("s", "running")
  await keeper.waitFor("s", runs, limit())
  const ends = async () =>
    (await store.history("s", "user:a", 10)).map(({ ref, whyEnded }) => `${ref} ${whyEnded}`)
  expect(await ends()).toEqual(["sp-s-1 undefined", "sp-s-2 undefined"])
  await (await sweeperOf(store, provider)).sweep()
  await keeper.waitFor("s", ({ life }) => life.doomed.length === 0 && !life.pending, limit())
  expect(await ends()).toEqual(["sp-s-1 stray", "sp-s-2 undefined"])
})

test("the sweep ends the record of a sandbox that neither the provider nor a life knows, and no other", async () => {
  const { store, provider, keeper } = await forgotten()
  await keeper.add(session, { generation: 1 })
  await keeper.want("s", "running")
  await keeper.waitFor("s", runs, limit())
  await provider.terminate("sp-s-1")
  await (await sweeperOf(store, provider)).sweep()
  const records = await store.history("s", "user:a", 10)
  expect(records.map(({ whyEnded }) => whyEnded)).toEqual(["gone", undefined])
})

test("the caretaker deletes a record when its time is over, and never one of a sandbox that exists", async () => {
  const store = openSqliteStore(":memory:")
  const clock = createManualClock(100 * DAY)
  await store.add(session, lifeWith({ phase: "paused", ref: "r" }), clock.now())
  const gone = { ...session, id: "gone" }
  await store.add(gone, lifeWith({ phase: "paused", ref: "g" }), clock.now())
  await store.endRecord("gone", "g", "gone", clock.now())
  const caretaker = testCaretaker({
    store,
    provider: memoryProvider(),
    clock,
    historyMs: 2 * DAY,
  })
  const left = async () =>
    [
      ...(await store.history("s", "user:a", 10)),
      ...(await store.history("gone", "user:a", 10)),
    ].map(({ ref }) => ref)
  clock.advance(2 * DAY)
  await caretaker.round()
  expect(await left()).toEqual(["r", "g"])
  clock.advance(1)
  await caretaker.round()
  expect(await left()).toEqual(["r"])
})

describe("GET /api/sandbox/:session/history", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-history-"))
  const JWT_SECRET = "a secret of the people of this test, 32 letters"
  const OPERATOR = "the token of the operator of this test"
  const store = openSqliteStore(":memory:")
  let stack: ServeStack
  const tokenOf = (sub: string) =>
    new SignJWT({ scope: "sessions:admin" })
      .setProtectedHeader({ alg: "HS256" })
      .setSubject(sub)
      .setExpirationTime("1h")
      .sign(new TextEncoder().encode(JWT_SECRET))

  beforeAll(async () => {
    stack = await startStack(folder, {
      provider: createNoopProvider(Date.now),
      store,
      costPerHour: 7200,
      hub: {
        clientToken: OPERATOR,
        jwt: { secret: JWT_SECRET },
      },
    })
  })
  afterAll(async () => {
    await stack.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const askWith = async (token: string, method: string, path: string) => {
    const response = await fetch(`${stack.hub.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
    })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const ask = async (sub: string, method: string, path: string) =>
    askWith(await tokenOf(sub), method, path)

  test("an owner sees the sandboxes of its session with their cost, also after its end, and another owner gets 404", async () => {
    const made = await ask("alice", "POST", "/api/threads/h/resolve?wait=1")
    const id = String(made.body["sessionId"])
    const path = `/api/sandbox/${id}/history`
    expect(await ask("alice", "GET", path)).toMatchObject({
      status: 200,
      body: { sessionId: id, sandboxes: [{ generation: 1, endedAt: null, whyEnded: null }] },
    })
    expect((await ask("alice", "POST", `/api/sandbox/${id}/terminate?wait=1`)).status).toBe(200)
    const [record] = await store.history(id, "user:alice", 10)
    const seconds = record?.seconds ?? -1
    const { body } = await ask("alice", "GET", path)
    expect(body["sandboxes"]).toEqual([
      {
        generation: 1,
        provider: "noop",
        providerSandboxId: String(record?.ref),
        image: "image:0.2.0",
        createdAt: record?.createdAt,
        endedAt: record?.endedAt,
        whyEnded: "session-ended",
        seconds: Number(seconds.toFixed(3)),
        cost: Number((seconds * 2).toFixed(6)),
      },
    ])
    expect((await ask("bob", "GET", path)).status).toBe(404)
  })

  test("the records of an earlier session with the same id and another owner are not shown", async () => {
    const made = await ask("alice", "POST", "/api/threads/again/resolve?wait=1")
    const id = String(made.body["sessionId"])
    await store.forget(id)
    await store.add({ ...session, id, tenant: "user:bob" }, newLife, Date.now())
    expect(await store.history(id, "user:alice", 10)).toHaveLength(1)
    expect(await askWith(OPERATOR, "GET", `/api/sandbox/${id}/history`)).toEqual({
      status: 200,
      body: { sessionId: id, sandboxes: [] },
    })
  })
})
