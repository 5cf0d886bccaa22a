/** The warm pool with a hub that is away or refuses a session. */
import { expect, test } from "bun:test"
import { type Life, newLife } from "../../src/fleet/core/life.ts"
import { HubAway, HubRefusal } from "../../src/fleet/hub-port.ts"
import { createPool, type PoolOptions } from "../../src/fleet/pool.ts"
import { createQuotas } from "../../src/fleet/quotas.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { keeperOn, memoryProvider, silentLog } from "./kit/fleet.ts"

const poolOn = async (store: FleetStore, size: number, hub: Partial<PoolOptions["hub"]>) => {
  const provider = memoryProvider()
  const { keeper } = await keeperOn(store, provider)
  const pool = createPool({
    store,
    keeper,
    quotas: createQuotas({ store, clock: systemClock, quotas: {} }),
    hub: {
      reserve: async () => {},
      handOver: async () => {},
      takesGitCredentials: async () => false,
      end: async () => {},
      ...hub,
    },
    provider,
    size,
    runtimeKey: "v1",
    environmentOf: () => ({ providerKeys: {}, credentials: {}, github: {} }),
    added: async () => {},
    replica: "r1",
    clock: systemClock,
    log: silentLog,
  })
  return { pool, keeper }
}
const row = { tenant: "pool", provider: "noop", environment: {}, poolKey: "old" } as const
const kinds = async (store: FleetStore) => (await store.pooled()).map(({ id, kind }) => [id, kind])

test("a claim that the hub refuses does not keep the pool from being filled", async () => {
  const store = openSqliteStore(":memory:")
  const life: Life = { ...newLife, phase: "running", wanted: "running", ref: "box" }
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
