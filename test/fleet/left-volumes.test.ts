/** The volume of a session whose record was deleted: when it is removed, and when it is not. */
import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Life, newLife } from "../../src/fleet/core/life.ts"
import type { ProviderResult, SandboxProvider } from "../../src/fleet/providers/contract.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { createManualClock } from "../kit/clock.ts"
import { memoryProvider, testCaretaker } from "./kit/fleet.ts"
import { changedLife, lifeWith } from "./kit/life.ts"

const DAY = 86_400_000
const folder = mkdtempSync(join(tmpdir(), "left-volumes-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const stageOn = (
  store: FleetStore,
  answer: () => ProviderResult<void> = () => ({ is: "ok", value: undefined }),
) => {
  const clock = createManualClock(1000 * DAY)
  const removed: string[] = []
  const provider: SandboxProvider = {
    ...memoryProvider({ volumes: true }),
    removeVolume: async (name) => {
      removed.push(name)
      return answer()
    },
  }
  const roundOn = (on: FleetStore) => testCaretaker({ store: on, provider, clock }).round()
  const add = (id: string, life: Life = newLife) =>
    store.add({ id, tenant: "user:a", provider: "noop", environment: {} }, life, clock.now())
  return { clock, removed, roundOn, add }
}

test("the volume of a forgotten session is removed after as many days as that of an ended one, also after a restart", async () => {
  const path = join(folder, "fleet.db")
  const first = openSqliteStore(path)
  const { clock, removed, roundOn, add } = stageOn(first)
  for (const id of ["s", "orchestrator:ann:1"]) {
    await add(id)
    await first.forget(id, clock.now())
  }
  clock.advance(7 * DAY - 1)
  await roundOn(first)
  expect(removed).toEqual([])
  await first.close()
  const second = openSqliteStore(path)
  clock.advance(1)
  await roundOn(second)
  // The sessions of an orchestrator share one volume, which outlives each of them.
  expect(removed).toEqual(["workspace-s"])
  clock.advance(30 * DAY)
  await roundOn(second)
  expect(removed).toEqual(["workspace-s"])
  await second.close()
})

test("the volume of a session that was recorded again stays until that one ends", async () => {
  const store = openSqliteStore(":memory:")
  const { clock, removed, roundOn, add } = stageOn(store)
  await add("s")
  await store.forget("s", clock.now())
  await add("s")
  clock.advance(8 * DAY)
  await roundOn(store)
  expect(removed).toEqual([])
  await store.change("s", clock.now(), (row) => ({
    ...row,
    life: changedLife(row.life, { wanted: "ended", phase: "ended" }),
  }))
  clock.advance(7 * DAY)
  await roundOn(store)
  expect(removed).toEqual(["workspace-s"])
})

test("the volume of a forgotten session waits for the end of its sandbox, and a failed removal is tried again after an hour", async () => {
  const store = openSqliteStore(":memory:")
  let isAway = true
  const { clock, removed, roundOn, add } = stageOn(store, () =>
    isAway ? { is: "unknown", why: "no answer" } : { is: "ok", value: undefined },
  )
  await add("s", lifeWith({ wanted: "running", phase: "running", ref: "box", generation: 1 }))
  await store.forget("s", clock.now())
  clock.advance(8 * DAY)
  await roundOn(store)
  expect(removed).toEqual([])
  await store.endRecord("s", "box", "forgotten", clock.now())
  clock.advance(3_600_000)
  await roundOn(store)
  await roundOn(store)
  expect(removed).toHaveLength(1)
  isAway = false
  clock.advance(3_600_000)
  await roundOn(store)
  await roundOn(store)
  expect(removed).toHaveLength(2)
  clock.advance(3_600_000)
  await roundOn(store)
  expect(removed).toHaveLength(2)
})

test("a volume at another provider is not removed here", async () => {
  const store = openSqliteStore(":memory:")
  const { clock, removed, roundOn } = stageOn(store)
  const row = { id: "s", tenant: "user:a", provider: "docker", environment: {} } as const
  await store.add(row, newLife, clock.now())
  await store.forget("s", clock.now())
  clock.advance(8 * DAY)
  await roundOn(store)
  expect(removed).toEqual([])
  expect(await store.leftVolumes(clock.now(), clock.now() + DAY, 10)).toHaveLength(1)
  // The session goes on at this provider, and the other one is not forgotten.
  await store.add({ ...row, provider: "noop" }, newLife, clock.now())
  clock.advance(DAY)
  await roundOn(store)
  expect(await store.leftVolumes(clock.now(), clock.now() + DAY, 10)).toHaveLength(1)
})
