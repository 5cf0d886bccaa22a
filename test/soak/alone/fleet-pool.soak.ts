/**
 * Three replicas of `serve` on one PostgreSQL and one hub of Durable Objects with a warm pool, killed again and again while
 * threads claim its sandboxes: no sandbox has two threads, no thread has two, and none is left over.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { isReady } from "../../../src/fleet/core/pool.ts"
import type { FleetStore } from "../../../src/fleet/store/ports.ts"
import { openPostgresStore } from "../../../src/fleet/store/postgres-store.ts"
import type { Replica } from "../../kit/replica.ts"
import { type ReplicaSet, startReplicaSet } from "../../kit/replica-set.ts"
import { untilTrue } from "../../kit/until-true.ts"

const REPLICAS = 3
const THREADS = 12
const POOL = 3
/** Enough to meet every step of a claim; endless kills would keep a slow machine from ever making a sandbox. */
const KILLS = 24

let set: ReplicaSet
let store: FleetStore

const sweep = async () => {
  const response = await set.call(set.replicas[0] as Replica, "POST", "/api/sweep")
  await response.body?.cancel()
}
/** Repeated until a replica has answered, as a client does whose server died. */
const resolve = async (thread: string, first: number): Promise<Record<string, unknown>> => {
  for (let attempt = first; ; attempt += 1) {
    const response = await set
      .call(
        set.replicas[attempt % REPLICAS] as Replica,
        "POST",
        `/api/threads/${thread}/resolve?wait=1`,
      )
      .catch(() => undefined)
    const body = (await response?.json().catch(() => undefined)) as
      | Record<string, unknown>
      | undefined
    if (response?.ok === true && body?.["status"] === "running") return body
    await Bun.sleep(100)
  }
}

beforeAll(async () => {
  set = await startReplicaSet(REPLICAS, { SANDBOX_POOL: String(POOL) })
  store = await openPostgresStore(set.databaseUrl)
}, 240_000)
afterAll(async () => {
  await store.close()
  await set.stop()
})

test("replicas that are killed while threads claim warm sandboxes leave one sandbox for each thread and a full pool", async () => {
  const isFull = async () =>
    (await store.pooled()).filter(({ kind, life }) => kind === "pool" && isReady(life)).length ===
    POOL
  await untilTrue(isFull, "full pool", 120_000)
  const kills = (async () => {
    for (let kill = 0; kill < KILLS; kill += 1) {
      // The first replica gets the hub's reports: it is killed, too, and comes back at the same port.
      const replica = set.replicas[kill % REPLICAS] as Replica
      await replica.restart()
      await replica.untilUp()
    }
  })()
  const asked = Promise.all(
    Array.from({ length: THREADS }, (_, index) => resolve(`t${index}`, index)),
  )
  const [answers] = await Promise.all([asked, kills])
  const ids = answers.map((answer) => String(answer["sessionId"]))
  expect(new Set(ids).size).toBe(THREADS)
  expect(ids.filter((id) => id.startsWith("warm-")).length).toBeGreaterThan(0)
  // A repeated request finds the same session.
  for (const [index, id] of ids.entries())
    expect((await resolve(`t${index}`, index))["sessionId"]).toBe(id)
  await untilTrue(isFull, "full pool again", 120_000)
  await untilTrue(
    async () => (await store.pooled()).every(({ kind }) => kind === "pool"),
    "end of every claim",
    120_000,
  )
  // Strays of killed creates are ended by the machine and the sweep, which otherwise runs every five minutes.
  const known = async () => (await store.present()).flatMap(({ life }) => life.ref ?? [])
  await untilTrue(
    async () => {
      await sweep()
      return set.boxes().toSorted().join() === (await known()).toSorted().join()
    },
    "sandbox for each session and no other",
    120_000,
  ).catch(async (error: unknown) => {
    expect(set.boxes().toSorted()).toEqual((await known()).toSorted())
    throw error
  })
  expect(set.boxes()).toHaveLength(THREADS + POOL)
}, 600_000)
