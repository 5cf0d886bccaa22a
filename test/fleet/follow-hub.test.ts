/** The follower of the hub's reports with a store in memory. */
import { expect, test } from "bun:test"
import { followHub } from "../../src/fleet/follow-hub.ts"
import { createMetrics } from "../../src/fleet/metrics.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import type { SessionActivity } from "../../src/hub/session/ports.ts"
import { keeperOn, memoryProvider, silentLog } from "./kit/fleet.ts"
import { lifeWith } from "./kit/life.ts"

const quiet: SessionActivity = {
  generation: 1,
  connected: false,
  working: 0,
  queued: 0,
  hasEnded: false,
  hasOtherRunner: false,
  counts: { done: 0, failed: 0, retried: 0, replaced: 0 },
}

const followerOn = async (store: FleetStore) => {
  const { keeper } = await keeperOn(store, memoryProvider())
  const metrics = createMetrics()
  const follower = followHub({
    store,
    keeper,
    provider: "noop",
    now: Date.now,
    log: silentLog,
    metrics,
    added: async () => {},
  })
  return { keeper, metrics, follower }
}

test("a repeated report about an ended session does not delay the removal of its volume", async () => {
  const store = openSqliteStore(":memory:")
  const { follower } = await followerOn(store)
  const ended = lifeWith({ phase: "ended", wanted: "ended" })
  await store.add({ id: "s", tenant: "user:a", provider: "noop", environment: {} }, ended, 1000)
  await follower.follow({
    session: "s",
    owner: "user:a",
    activity: { ...quiet, hasEnded: true },
  })
  expect((await store.find("s"))?.updatedAt).toBe(1000)
})

const replicaOn = async (store: FleetStore) => {
  const { keeper, metrics, follower } = await followerOn(store)
  const counted = () =>
    Number(/^sandpiper_prompts_total{result="ok"} (\d+)$/m.exec(metrics.text([]))?.[1] ?? 0)
  const report = (done: number, more: Partial<SessionActivity> = {}) => {
    const activity = { ...quiet, ...more, counts: { ...quiet.counts, done } }
    return follower.follow({ session: "s", owner: "user:a", activity })
  }
  return { report, counted, stop: () => keeper.stop() }
}

test("a prompt is counted once if its session reports to two replicas, repeats a report or outlives a restart", async () => {
  const store = openSqliteStore(":memory:")
  const [a, b] = [await replicaOn(store), await replicaOn(store)]
  const total = () => a.counted() + b.counted()
  await a.report(0)
  await b.report(1)
  await a.report(2)
  expect(total()).toBe(2)
  await b.report(3)
  await a.report(3)
  await b.report(3)
  expect(total()).toBe(3)
  // The answer to an earlier report was lost, and it arrives once more.
  await a.report(2)
  await b.report(4)
  expect(total()).toBe(4)
  // After a restart the next report counts what has ended meanwhile.
  const restarted = await replicaOn(store)
  await restarted.report(6)
  expect(total() + restarted.counted()).toBe(6)
  await a.report(7, { hasEnded: true })
  await b.report(7, { hasEnded: true })
  expect(total() + restarted.counted()).toBe(7)
  for (const replica of [a, b, restarted]) await replica.stop()
})
