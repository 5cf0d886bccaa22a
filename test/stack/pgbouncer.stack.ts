/** The fleet's store through Debian's PgBouncer in transaction mode, before the PostgreSQL of the npm package. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { newLife } from "../../src/fleet/core/life.ts"
import type { FleetStore, StoredSession } from "../../src/fleet/store/ports.ts"
import { openPostgresStore } from "../../src/fleet/store/postgres-store.ts"
import { keeperOn, memoryProvider } from "../fleet/kit/fleet.ts"
import { startPostgres, type TestPostgres } from "../fleet/kit/postgres.ts"
import { storeContract } from "../fleet/store-contract.ts"
import { type PgBouncer, startPgBouncer } from "./pgbouncer.ts"

let postgres: TestPostgres
let bouncer: PgBouncer

beforeAll(async () => {
  postgres = await startPostgres()
  bouncer = await startPgBouncer(postgres.url)
})
afterAll(async () => {
  await bouncer.stop()
  await postgres.stop()
})

storeContract("PostgreSQL behind PgBouncer", () => openPostgresStore(bouncer.url), { hears: false })

const isRunning = ({ life }: StoredSession) => life.phase === "running"
const session = (id: string) =>
  ({ id, tenant: "user:a", provider: "noop", environment: {} }) as const

test("four keepers behind PgBouncer make one sandbox for each of twenty sessions that all of them want", async () => {
  const provider = memoryProvider()
  const stores: FleetStore[] = []
  for (let number = 0; number < 4; number += 1) stores.push(await openPostgresStore(bouncer.url))
  const keepers = await Promise.all(
    stores.map(async (store, index) => (await keeperOn(store, provider, `r${index}`)).keeper),
  )
  for (const keeper of keepers) keeper.start()
  const ids = Array.from({ length: 20 }, (_, index) => `claimed-${index}`)
  const limit = AbortSignal.timeout(60_000)
  await Promise.all(
    ids.flatMap((id) =>
      keepers.map(async (keeper) => {
        await keeper.add(session(id))
        await keeper.want(id, "running")
        expect((await keeper.waitFor(id, isRunning, limit))?.life).toMatchObject({
          phase: "running",
          ref: `sp-${id}-1`,
        })
      }),
    ),
  )
  expect(provider.calls).toEqual(ids.map(() => "create"))
  for (const [index, keeper] of keepers.entries()) {
    await keeper.stop()
    expect((await stores[index]?.history(`claimed-${index}`, "user:a", 10))?.length).toBe(1)
    await stores[index]?.close()
  }
})

test("the answers of many statements at the same time are those of the statements that were sent", async () => {
  const store = await openPostgresStore(bouncer.url)
  const other = await openPostgresStore(bouncer.url)
  await Promise.all(
    Array.from({ length: 300 }, async (_, index) => {
      const on = index % 2 === 0 ? store : other
      const id = `many-${index}`
      await on.add(
        { ...session(id), threadKey: id, environment: { NUMBER: String(index) } },
        { ...newLife, generation: index },
        index,
      )
      expect(await on.find(id)).toMatchObject({
        id,
        environment: { NUMBER: String(index) },
        life: { generation: index },
        createdAt: index,
      })
      expect((await on.findThread("user:a", id))?.id).toBe(id)
      expect(await on.lease(`lease-${index}`, "me", 0, index + 1)).toBe(true)
    }),
  )
  await store.close()
  await other.close()
})
