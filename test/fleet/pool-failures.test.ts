/** The warm pool with a hub that is away or refuses a session, and with a provider that refuses sandboxes. */
import { describe, expect, test } from "bun:test"
import { newLife } from "../../src/fleet/core/life.ts"
import { isReady } from "../../src/fleet/core/pool.ts"
import { HubAway, HubRefusal } from "../../src/fleet/hub-port.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { createManualClock } from "../kit/clock.ts"
import { untilTrue } from "../kit/until-true.ts"
import { memoryProvider } from "./kit/fleet.ts"
import { lifeWith } from "./kit/life.ts"
import { poolOn } from "./kit/pool.ts"

const row = { tenant: "pool", provider: "noop", environment: {}, poolKey: "old" } as const
const kinds = async (store: FleetStore) => (await store.pooled()).map(({ id, kind }) => [id, kind])

test("a claim that the hub refuses does not keep the pool from being filled", async () => {
  const store = openSqliteStore(":memory:")
  const life = lifeWith({ phase: "running", wanted: "running", ref: "box" })
  await store.add({ ...row, id: "refused", kind: "claimed", tenant: "user:a" }, life, 0)
  const { pool, keeper } = await poolOn(store, 1, {
    handOver: async () => Promise.reject(new HubRefusal("there is no session refused")),
  })
  await pool.round()
  expect(await kinds(store)).toEqual(
    expect.arrayContaining([
      ["refused", "claimed"],
      [expect.stringMatching(/^warm-/), "pool"],
    ]),
  )
  await keeper.stop()
})

test("the session of an entry is ended at the hub before its record is deleted", async () => {
  const store = openSqliteStore(":memory:")
  const ended: string[] = []
  let isAway = true
  const { pool, keeper } = await poolOn(store, 0, {
    end: async (id) => {
      if (isAway) throw new HubAway("the hub did not answer")
      if (id === "unknown") throw new HubRefusal("the hub has no session unknown")
      ended.push(id)
    },
  })
  for (const id of ["known", "unknown"]) await store.add({ ...row, id, kind: "pool" }, newLife, 0)
  // The sandboxes end, and the hub does not hear of it.
  await pool.round()
  await pool.round()
  const left = (await store.pooled()).map(({ id, life }) => `${id} ${life.phase}`)
  expect(left.toSorted()).toEqual(["known ended", "unknown ended"])
  isAway = false
  await pool.round()
  expect(ended).toEqual(["known"])
  expect(await store.pooled()).toEqual([])
  await keeper.stop()
})

/** A provider that refuses creates until a test lets it work. */
const refusingProvider = () => {
  const inner = memoryProvider()
  const state = { refuses: true }
  const create: SandboxProvider["create"] = async (spec, limit) =>
    state.refuses ? { is: "refused", why: "no capacity" } : inner.create(spec, limit)
  return { state, provider: { ...inner, create } }
}

test("a pool whose creates are refused waits ever longer, up to 15 minutes, and is filled at once when any create works", async () => {
  const store = openSqliteStore(":memory:")
  const clock = createManualClock(1_000_000)
  const { provider, state } = refusingProvider()
  const added: number[] = []
  const reserve = async () => void added.push(clock.now())
  const { pool, keeper } = await poolOn(store, 1, { reserve }, { provider, clock })
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 1) {
      clock.advance(1000)
      await keeper.tick()
      await pool.round()
      // Sleep: yields to the event loop so that the answers of the provider are stored.
      await Bun.sleep(0)
    }
  }
  await pass(2 * 3600)
  const minutes = added.slice(1).map((at, index) => (at - (added[index] ?? 0)) / 60_000)
  expect(minutes.length).toBeLessThanOrEqual(12)
  // Each time includes the minute or two in which an entry makes its attempts.
  for (const [index, gap] of minutes.entries()) {
    const pause = Math.min(15, 2 ** index)
    expect(gap).toBeGreaterThanOrEqual(pause)
    expect(gap).toBeLessThan(pause + 6)
  }
  state.refuses = false
  const session = { id: "s", tenant: "user:a", provider: "noop", environment: {} } as const
  await keeper.add(session)
  await keeper.want("s", "running")
  // The keeper itself makes a trial after a minute at the latest.
  await pass(65)
  expect((await store.find("s"))?.life.phase).toBe("running")
  expect((await store.pooled()).map(({ life }) => life.phase)).toEqual(["running"])
  await keeper.stop()
})

/** A provider whose sandboxes connect to the hub, apart from the first ones. */
const hangingProvider = (hanging: number) => {
  const inner = memoryProvider({ startsRunner: true })
  const made: string[] = []
  const terminated: string[] = []
  const provider: SandboxProvider = {
    ...inner,
    create: async (spec, limit) => {
      made.push(spec.session)
      return inner.create(spec, limit)
    },
    terminate: async (ref) => {
      terminated.push(ref)
      return inner.terminate(ref)
    },
  }
  return { provider, made, terminated, connects: () => made.slice(hanging) }
}

test("a pool whose first two sandboxes hang is full again within 20 seconds, and the two are ended then", async () => {
  const store = openSqliteStore(":memory:")
  const clock = createManualClock(1_000_000)
  const { provider, made, terminated, connects } = hangingProvider(2)
  const { pool, keeper } = await poolOn(store, 3, {}, { provider, clock })
  const from = clock.now()
  const ready = async () => (await store.pooled()).filter(({ life }) => isReady(life))
  const second = async () => {
    for (const half of [500, 500]) {
      clock.advance(half)
      await keeper.tick()
      await pool.round()
    }
    await untilTrue(
      async () => (await store.pooled()).every(({ life }) => !life.pending),
      "answer to every call",
    )
    // The runner of a sandbox that does not hang connects a second after its create.
    for (const id of connects())
      await keeper.runner(id, { generation: 1, linked: true, busy: false })
  }
  while ((await ready()).length < 3 && clock.now() < from + 60_000) await second()
  expect(clock.now() - from).toBeLessThanOrEqual(20_000)
  expect(made).toHaveLength(5)
  // No slow entry is ended before the pool is full.
  expect(terminated).toEqual([])
  await second()
  await second()
  expect(terminated.toSorted()).toEqual(
    made
      .slice(0, 2)
      .map((id) => `sp-${id}-1`)
      .toSorted(),
  )
  expect((await store.pooled()).map(({ id }) => id).toSorted()).toEqual(connects().toSorted())
  await keeper.stop()
})

test("a sandbox of the pool has a minute to start, and that of a session two", async () => {
  const store = openSqliteStore(":memory:")
  const clock = createManualClock(1_000_000)
  const { keeper } = await poolOn(store, 1, {}, { provider: hangingProvider(9).provider, clock })
  for (const [id, kind, ms] of [
    ["warm", "pool", 60_000],
    ["own", "hub", 120_000],
    ["image", "base", 120_000],
  ] as const) {
    await keeper.add({ ...row, id, kind })
    await keeper.want(id, "running")
    const isBooting = async () => (await store.find(id))?.life.phase === "booting"
    await untilTrue(isBooting, `sandbox of ${id}`)
    expect((await store.find(id))?.life.bootBy).toBe(clock.now() + ms)
  }
  await keeper.stop()
})

describe("a session that one replica has taken for a request", () => {
  const stage = async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1_000_000)
    const handed: string[] = []
    const handOver = async (id: string, owner: string, creator?: string) =>
      void handed.push(`${id} ${owner} ${creator}`)
    const replicaOf = (replica: string) => poolOn(store, 1, { handOver }, { clock, replica })
    const [a, b] = [await replicaOf("a"), await replicaOf("b")]
    await a.pool.round()
    const entry = async () => (await store.pooled())[0]
    await untilTrue(async () => isReady((await entry())?.life ?? newLife), "a full pool")
    const id = (await entry())?.id ?? ""
    const stop = () => Promise.all([a.keeper.stop(), b.keeper.stop()])
    return { store, clock, handed, a: a.pool, b: b.pool, id, stop }
  }

  test("is not given to its owner by the round of another one, and has its creator", async () => {
    const { handed, a, b, id, stop } = await stage()
    expect(await a.take("org:acme", "alice")).toBe(id)
    await b.round()
    expect(handed).toEqual([])
    await a.give(id)
    await b.round()
    expect(handed).toEqual([`${id} org:acme alice`])
    await stop()
  })

  test("can be put back after the round of another one", async () => {
    const { store, handed, a, b, id, stop } = await stage()
    expect(await a.take("org:acme", "alice")).toBe(id)
    await b.round()
    await a.putBack(id)
    expect(handed).toEqual([])
    expect(await store.find(id)).toMatchObject({ kind: "pool", tenant: "pool" })
    expect((await store.find(id))?.creator).toBeUndefined()
    await stop()
  })

  test("is given to its owner and creator by another one if its replica has died", async () => {
    const { clock, handed, a, b, id, stop } = await stage()
    expect(await a.take("org:acme", "alice")).toBe(id)
    clock.advance(120_000)
    await b.round()
    expect(handed).toEqual([`${id} org:acme alice`])
    await stop()
  })
})
