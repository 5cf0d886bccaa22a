/**
 * Five replicas of `serve` on one PostgreSQL and one hub of Durable Objects, killed again and again while they start and
 * save the sandboxes of twenty threads: each thread has one sandbox, and none is left over. Every sandbox has one record.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import type { Replica } from "../../kit/replica.ts"
import { type ReplicaSet, startReplicaSet } from "../../kit/replica-set.ts"
import { untilTrue } from "../../kit/until-true.ts"

const REPLICAS = 5
const THREADS = 20
const KILLS = 30
const seed = Number(process.env["FLEET_SEED"] ?? Math.floor(Math.random() * 1e9))

let set: ReplicaSet

/** A linear congruential generator: the same seed gives the same choices. */
const random = (() => {
  let state = seed
  return (below: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state % below
  }
})()

const call = async (
  replica: Replica,
  method: string,
  path: string,
): Promise<Record<string, unknown>> =>
  (await (await set.call(replica, method, path)).json()) as Record<string, unknown>
const someReplica = () => set.replicas[random(REPLICAS)] as Replica
const threadName = (index: number) => `C${index}:1700`

interface Runner {
  readonly pid: number
  readonly session: string
}

/** The runners of this test that exist: a sandbox is one such process. */
const runners = (): readonly Runner[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")
        const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0")
        const ours = variables.includes(`HOME=${set.home}`)
        const session = variables.find((one) => one.startsWith("SESSION_ID="))
        return ours && words[1] === "run" && session
          ? [{ pid: Number(pid), session: session.slice("SESSION_ID=".length) }]
          : []
      } catch {
        return []
      }
    })
const runningSessions = (): readonly string[] => runners().map(({ session }) => session)

beforeAll(async () => {
  set = await startReplicaSet(REPLICAS)
}, 300_000)
afterAll(() => set.stop(), 60_000)

test(`after ${KILLS} kills of ${REPLICAS} replicas each of ${THREADS} threads has one sandbox (seed ${seed})`, async () => {
  const asked: Promise<unknown>[] = []
  const ask = (path: string) =>
    void asked.push(call(someReplica(), "POST", path).catch(() => undefined))
  for (let round = 0; round < KILLS; round++) {
    for (let index = 0; index < 4; index++) {
      const thread = encodeURIComponent(threadName(random(THREADS)))
      ask(`/api/threads/${thread}/resolve`)
    }
    // Sleep: the moment of the kill is chosen at random.
    await Bun.sleep(random(250))
    await someReplica().restart()
    // Two may be away at the same time, never all of them.
    if (round % 2 === 1) await Promise.all(set.replicas.map((replica) => replica.untilUp()))
  }
  await Promise.all(set.replicas.map((replica) => replica.untilUp()))
  await Promise.all(asked)

  const sessions: string[] = []
  for (let index = 0; index < THREADS; index++) {
    const path = `/api/threads/${encodeURIComponent(threadName(index))}/resolve?wait=1`
    let answer: Record<string, unknown> = {}
    await untilTrue(
      async () => {
        answer = await call(someReplica(), "POST", path)
        return answer["status"] === "running"
      },
      () => `sandbox of thread ${index}: ${JSON.stringify(answer)}`,
      240_000,
    )
    sessions.push(String(answer["sessionId"]))
  }
  // Strays of killed creates are ended by the machine and the sweep, not by luck: the sweep runs once.
  await call(someReplica(), "POST", "/api/sweep")
  await untilTrue(
    () => runningSessions().length === THREADS,
    () => `one runner a thread, not ${runningSessions().length}`,
    120_000,
  )
  expect(runningSessions().toSorted()).toEqual(sessions.toSorted())

  for (const session of sessions)
    await call(someReplica(), "POST", `/api/sandbox/${session}/terminate?wait=1`)
  await untilTrue(() => runningSessions().length === 0, "end of all sandboxes", 120_000)
  const { sandboxes } = await call(someReplica(), "GET", "/api/sandboxes")
  expect((sandboxes as readonly { status: string }[]).map(({ status }) => status)).toEqual(
    sessions.map(() => "terminated"),
  )
  // No kill has left a hole or a double record, and none is open after the end.
  for (const session of sessions) {
    const answer = await call(someReplica(), "GET", `/api/sandbox/${session}/history`)
    const records = answer["sandboxes"] as readonly {
      readonly generation: number
      readonly endedAt: number | null
      readonly whyEnded: string | null
    }[]
    const generations = records.map(({ generation }) => generation)
    expect(generations.length).toBeGreaterThan(0)
    expect(new Set(generations).size).toBe(generations.length)
    expect(records.filter(({ endedAt }) => endedAt === null)).toEqual([])
    expect(records.at(-1)?.whyEnded).toBe("session-ended")
  }
}, 900_000)
