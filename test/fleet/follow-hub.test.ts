/** The follower of the hub's reports with a store in memory. */
import { expect, test } from "bun:test"
import { newLife } from "../../src/fleet/core/life.ts"
import { followHub } from "../../src/fleet/follow-hub.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import type { SessionActivity } from "../../src/hub/session/ports.ts"
import { keeperOn, memoryProvider, silentLog } from "./kit/fleet.ts"

const quiet: SessionActivity = {
  generation: 1,
  connected: false,
  working: 0,
  queued: 0,
  hasEnded: false,
  hasOtherRunner: false,
  counts: { done: 0, failed: 0, retried: 0, replaced: 0 },
}

test("a repeated report about an ended session does not delay the removal of its volume", async () => {
  const store = openSqliteStore(":memory:")
  const { keeper } = await keeperOn(store, memoryProvider())
  const added = async () => {}
  const follower = followHub({ store, keeper, provider: "noop", log: silentLog, added })
  const ended = { ...newLife, phase: "ended", wanted: "ended" } as const
  await store.add({ id: "s", tenant: "user:a", provider: "noop", environment: {} }, ended, 1000)
  await follower.follow({
    session: "s",
    owner: "user:a",
    activity: { ...quiet, hasEnded: true },
  })
  expect((await store.find("s"))?.updatedAt).toBe(1000)
})
