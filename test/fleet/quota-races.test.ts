/** Sandboxes that one owner starts, wakes and claims at the same moment, with two replicas on each database. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { rowOf } from "../../src/fleet/store/life-row.ts"
import { type Life, newLife } from "../../src/fleet/core/life.ts"
import { poolKeyOf } from "../../src/fleet/core/pool.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { createQuotas } from "../../src/fleet/quotas.ts"
import { createChanges } from "../../src/fleet/store/changes.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openPostgresStore } from "../../src/fleet/store/postgres-store.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { digestOf } from "../../src/lib/digest.ts"
import { createManualClock } from "../kit/clock.ts"
import { untilTrue } from "../kit/until-true.ts"
import { memoryProvider } from "./kit/fleet.ts"
import { lifeWith } from "./kit/life.ts"
import { poolOn } from "./kit/pool.ts"
import { startPostgres, type TestPostgres } from "./kit/postgres.ts"

const folder = mkdtempSync(join(tmpdir(), "quota-races-"))
const changes = createChanges()
let postgres: TestPostgres
beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(async () => {
  await postgres.stop()
  rmSync(folder, { recursive: true, force: true })
})
const databases: Readonly<Record<string, () => Promise<FleetStore>>> = {
  SQLite: async () => openSqliteStore(join(folder, "fleet.db"), changes),
  PostgreSQL: () => openPostgresStore(postgres.url),
}

const running = (ref: string) => lifeWith({ wanted: "running", phase: "running", ref })

/** Entries of the warm pool that can be claimed. */
const addEntries = async (store: FleetStore, count: number): Promise<readonly string[]> => {
  const sources = { providerKeys: {}, credentials: {}, github: {} }
  const poolKey = poolKeyOf("v1", sources, digestOf)
  const ids = Array.from({ length: count }, (_, index) => `warm-${index}`)
  for (const id of ids)
    await store.add(
      { id, kind: "pool", tenant: "pool", provider: "noop", environment: {}, poolKey },
      running(`box-${id}`),
      0,
    )
  return ids
}

for (const [name, open] of Object.entries(databases))
  describe(`the quota of an owner with two replicas on ${name}`, () => {
    let stores: readonly [FleetStore, FleetStore]
    beforeAll(async () => {
      stores = [await open(), await open()]
    })
    afterAll(async () => {
      for (const store of stores) await store.close()
    })

    /** All times are the same: no order of them decides. */
    const stage = async (quota: number, provider: SandboxProvider) => {
      const clock = createManualClock(1_000_000)
      const replicaOn = async (store: FleetStore, replica: string) => {
        const quotas = createQuotas({ store, clock, quotas: { running: quota } })
        return poolOn(store, 1, {}, { provider, replica, clock, quotas })
      }
      const replicas = [await replicaOn(stores[0], "a"), await replicaOn(stores[1], "b")] as const
      const of = (index: number) => (index % 2 === 0 ? replicas[0] : replicas[1])
      const stop = () => Promise.all(replicas.map(({ keeper }) => keeper.stop()))
      return { clock, of, stop }
    }
    const add = (id: string, tenant: string, life: Life = newLife) =>
      stores[0].add({ id, tenant, provider: "noop", environment: {} }, life, 0)
    const lives = async (ids: readonly string[]) =>
      Promise.all(ids.map(async (id) => (await stores[0].find(id))?.life ?? newLife))
    const rows = async (ids: readonly string[]) => (await lives(ids)).map(rowOf)
    const isAnswered = (life: Life) => !life.pending && (life.ref ?? life.lastError) !== undefined
    const settled = (ids: readonly string[]) =>
      untilTrue(async () => (await lives(ids)).every(isAnswered), "every call is answered")

    test("of twenty creates at the same moment as many are made as the quota allows", async () => {
      const provider = memoryProvider()
      const { of, stop } = await stage(5, provider)
      // Each is before the former ones in the order of names.
      const ids = Array.from({ length: 20 }, (_, index) => `c${99 - index}`)
      for (const id of ids) await add(id, "user:creates")
      await Promise.all(ids.map((id, index) => of(index).keeper.want(id, "running")))
      await settled(ids)
      expect((await lives(ids)).filter(({ ref }) => ref !== undefined)).toHaveLength(5)
      expect(provider.calls.filter((call) => call === "create")).toHaveLength(5)
      await stop()
    })

    test("a create that is under way has its place, also if another session is before it in every order", async () => {
      const inner = memoryProvider()
      const made = Promise.withResolvers<void>()
      const asked: string[] = []
      const provider: SandboxProvider = {
        ...inner,
        create: async (spec, limit) => {
          asked.push(spec.session)
          await made.promise
          return inner.create(spec, limit)
        },
      }
      const { of, stop } = await stage(1, provider)
      for (const id of ["under-way-b", "under-way-a"]) await add(id, "user:under-way")
      await of(0).keeper.want("under-way-b", "running")
      await untilTrue(async () => asked.length === 1, "the first create")
      await of(1).keeper.want("under-way-a", "running")
      await settled(["under-way-a"]).finally(() => made.resolve())
      expect(asked).toEqual(["under-way-b"])
      await stop()
    })

    test("of ten claims and ten creates at the same moment as many succeed as the quota allows", async () => {
      const provider = memoryProvider()
      const { of, stop } = await stage(4, provider)
      const tenant = "user:both"
      const ids = Array.from({ length: 10 }, (_, index) => `b${index}`)
      for (const id of ids) await add(id, tenant)
      const warm = await addEntries(stores[0], 10)
      const claims = warm.map((_, index) => of(index).pool.take(tenant, undefined))
      const creates = ids.map((id, index) => of(index).keeper.want(id, "running"))
      const claimed = (await Promise.all(claims)).filter((id) => id !== undefined)
      await Promise.all(creates)
      await settled(ids)
      const started = (await lives(ids)).filter(({ ref }) => ref !== undefined)
      expect(claimed.length + started.length).toBe(4)
      await stop()
    })

    test("a create whose answer was lost has its place until it is known what became of it", async () => {
      let isAway = true
      const inner = memoryProvider({}, (call) =>
        call === "create" && isAway ? "after" : undefined,
      )
      const provider: SandboxProvider = {
        ...inner,
        list: async function* (filter) {
          if (isAway) throw new Error("the provider does not answer")
          yield* inner.list(filter)
        },
      }
      const { clock, of, stop } = await stage(1, provider)
      const ids = ["lost-1", "lost-2"]
      for (const id of ids) await add(id, "user:lost")
      await of(0).keeper.want("lost-1", "running")
      await settled(["lost-1"])
      expect((await rows(ids))[0]?.doubt).toBe(true)
      await of(1).keeper.want("lost-2", "running")
      await settled(["lost-2"])
      expect((await rows(ids))[1]).toMatchObject({ generation: 1, doubt: false })
      isAway = false
      clock.advance(60_000)
      await of(0).keeper.tick()
      await untilTrue(async () => (await lives(ids))[0]?.ref !== undefined, "the sandbox is found")
      await settled(["lost-2"])
      expect((await lives(ids))[1]?.ref).toBeUndefined()
      expect(inner.calls.filter((call) => call === "create")).toHaveLength(1)
      await stop()
    })

    test("a start that is over leaves no place behind: a paused, a refused and an ended sandbox", async () => {
      const inner = memoryProvider()
      const provider: SandboxProvider = {
        ...inner,
        create: async (spec, limit) =>
          spec.session === "over-refused"
            ? { is: "refused", why: "no" }
            : inner.create(spec, limit),
      }
      const { of, stop } = await stage(1, provider)
      const ids = ["over-refused", "over-paused", "over-ended", "over-last"]
      for (const id of ids) await add(id, "user:over")
      const { keeper } = of(0)
      await keeper.want("over-refused", "running")
      await settled(["over-refused"])
      await keeper.want("over-paused", "running")
      await settled(["over-paused"])
      await keeper.want("over-paused", "asleep")
      const phase = (id: string, now: Life["phase"]) =>
        untilTrue(async () => (await lives([id]))[0]?.phase === now, `${id} ${now}`)
      await phase("over-paused", "paused")
      await keeper.want("over-ended", "running")
      await phase("over-ended", "running")
      await keeper.want("over-ended", "ended")
      await phase("over-ended", "ended")
      await of(1).keeper.want("over-last", "running")
      await phase("over-last", "running")
      await stop()
    })
  })
