/**
 * Three replicas of `serve` on one PostgreSQL and one hub of Durable Objects with a warm pool, killed again and again while
 * threads claim its sandboxes: no sandbox has two threads, no thread has two, and none is left over.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { rowOf } from "../../../src/fleet/store/life-row.ts"
import { isReady } from "../../../src/fleet/core/pool.ts"
import type { FleetStore, StoredSession } from "../../../src/fleet/store/ports.ts"
import { openPostgresStore } from "../../../src/fleet/store/postgres-store.ts"
import type { Replica } from "../../kit/replica.ts"
import { type ReplicaSet, startReplicaSet } from "../../kit/replica-set.ts"
import { untilFound, untilState } from "../../kit/until-true.ts"

const REPLICAS = 3
const THREADS = 12
const POOL = 3
/** Enough to meet every step of a claim; endless kills would keep a slow machine from ever making a sandbox. */
const KILLS = 24
/** The threads get their sandboxes while replicas are killed: the limit is above the time of all kills. */
const RESOLVE_MS = 400_000

let set: ReplicaSet
let store: FleetStore

const sweep = async () => {
  const response = await set.call(set.replicas[0] as Replica, "POST", "/api/sweep")
  await response.body?.cancel()
}
/** Repeated until a replica has answered, as a client does whose server died. */
const resolve = (thread: string, first: number): Promise<Record<string, unknown>> => {
  let attempt = first
  return untilFound(
    async () => {
      const replica = set.replicas[attempt++ % REPLICAS] as Replica
      const response = await set
        .call(replica, "POST", `/api/threads/${thread}/resolve?wait=1`)
        .catch(() => undefined)
      const body = (await response?.json().catch(() => undefined)) as
        | Record<string, unknown>
        | undefined
      return response?.ok === true && body?.["status"] === "running" && body
    },
    `running sandbox of the thread ${thread}`,
    RESOLVE_MS,
  )
}

/** What a failed wait prints of each entry. Times are in seconds from now. */
const lineOf = ({ id, kind, life, caller, callUntil, createdAt, dueAt }: StoredSession): string => {
  const from = (at: number | undefined) =>
    at === undefined ? "-" : ((at - Date.now()) / 1000).toFixed(1)
  const { phase, wanted, pending, doubt, unsure, failed, failures, lastError, linked } = rowOf(life)
  return [
    `${id} ${kind} ${phase} wanted ${wanted} generation ${life.generation} created ${from(createdAt)}`,
    `pending ${pending ? `${pending.call.do} since ${from(pending.since)}` : "-"}`,
    `caller ${caller ?? "-"} until ${from(callUntil)} due ${from(dueAt)}`,
    `boot by ${from(life.bootBy)} retry ${from(life.retryAt)} linked ${linked}`,
    `doubt ${doubt} unsure ${unsure} failed ${failed} failures ${failures} error ${lastError ?? "-"}`,
  ].join(", ")
}
const readyIn = (rows: readonly StoredSession[]) =>
  rows.filter(({ kind, life }) => kind === "pool" && isReady(life)).length
/** Waits for the rows of the pool. A timeout prints them. */
const untilPool = async (
  holds: (rows: readonly StoredSession[]) => boolean,
  what: string,
): Promise<void> => {
  let rows: readonly StoredSession[] = []
  await untilState(
    async () => {
      rows = await store.pooled()
      return rows.map(lineOf).join("\n")
    },
    () => holds(rows),
    what,
  )
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
  const isFull = (rows: readonly StoredSession[]) => readyIn(rows) === POOL
  await untilPool(isFull, "full pool")
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
  await untilPool(isFull, "full pool again")
  await untilPool((rows) => rows.every(({ kind }) => kind === "pool"), "end of every claim")
  // Strays of killed creates are ended by the machine and the sweep, which otherwise runs every five minutes.
  await untilState(
    async () => {
      await sweep()
      const known = (await store.present()).flatMap(({ life }) => life.ref ?? [])
      return { boxes: set.boxes().toSorted(), known: known.toSorted() }
    },
    ({ boxes, known }) => Bun.deepEquals(boxes, known) && boxes.length === THREADS + POOL,
    "sandbox for each thread and entry of the pool and no other",
  )
  expect(set.boxes()).toHaveLength(THREADS + POOL)
}, 900_000)
