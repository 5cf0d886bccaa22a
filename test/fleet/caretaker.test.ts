/** Quotas, keep-alives, snapshots and volumes: the rules, and the calls that the provider gets. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { createCaretaker } from "../../src/fleet/caretaker.ts"
import { type Life, newLife } from "../../src/fleet/core/life.ts"
import { isWithinQuota } from "../../src/fleet/core/quota.ts"
import { mustRenew, snapshotsToRemove } from "../../src/fleet/core/snapshots.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { createQuotas } from "../../src/fleet/quotas.ts"
import { systemClock } from "../../src/lib/clock.ts"
import type { FleetStore, StoredSession } from "../../src/fleet/store/ports.ts"
import { createMetrics } from "../../src/fleet/metrics.ts"
import { createManualClock } from "../kit/clock.ts"
import { keeperOn, memoryProvider, silentLog } from "./kit/fleet.ts"

const DAY = 86_400_000

describe("the quota of an owner", () => {
  const lifeOf = (phase: Life["phase"], since?: number): Life => ({
    ...newLife,
    phase,
    ...(phase === "running" || phase === "paused" ? { ref: "r" } : {}),
    ...(since !== undefined && {
      pending: { number: 1, call: { do: "create", generation: 1 }, since, dirty: false },
    }),
  })

  test("at most the quota of sandboxes is allowed, and exactly the quota if enough are requested", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom<Life["phase"]>("running", "paused", "ended", "absent"), {
          maxLength: 6,
        }),
        fc.array(fc.nat(3), { maxLength: 8 }),
        fc.integer({ min: 1, max: 5 }),
        (phases, asked, quota) => {
          const there = phases.map((phase, index) => ({ id: `e${index}`, life: lifeOf(phase) }))
          const coming = asked.map((since, index) => ({
            id: `n${index}`,
            life: lifeOf("absent", since + 1),
          }))
          const all = [...there, ...coming]
          const running = phases.filter((phase) => phase === "running").length
          const allowed = coming.filter(({ id }) => isWithinQuota(id, all, quota)).length
          expect(allowed).toBe(Math.min(coming.length, Math.max(0, quota - running)))
        },
      ),
    )
  })

  test("a third sandbox waits until one of two is paused, and the conversation says so once", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider()
    const { keeper, notes } = await keeperOn(store, provider, "r1", {
      quotas: createQuotas({ store, clock: systemClock, quotas: { running: 2 } }),
    })
    for (const id of ["a", "b", "c"])
      await keeper.add({ id, tenant: "user:a", provider: "noop", environment: {} })
    await keeper.add({ id: "other", tenant: "user:b", provider: "noop", environment: {} })
    const limit = AbortSignal.timeout(20_000)
    const runs = ({ life }: StoredSession) => life.phase === "running"
    for (const id of ["a", "b"]) {
      await keeper.want(id, "running")
      await keeper.waitFor(id, runs, limit)
    }
    await keeper.want("c", "running")
    await keeper.waitFor("c", ({ life }) => life.lastError !== undefined, limit)
    expect((await store.find("c"))?.life.ref).toBeUndefined()
    await keeper.want("other", "running")
    expect((await keeper.waitFor("other", runs, limit))?.life.phase).toBe("running")
    // A second attempt is refused too, without a second note.
    await store.change("c", Date.now(), (row) => ({
      ...row,
      life: { ...row.life, retryAt: Date.now() },
      dueAt: Date.now(),
    }))
    await keeper.tick()
    await keeper.waitFor("c", ({ life }) => !life.pending && life.number === 2, limit)
    expect(notes).toEqual([expect.stringContaining("All 2 sandboxes")])
    await keeper.want("a", "asleep")
    await keeper.waitFor("a", ({ life }) => life.phase === "paused", limit)
    await store.change("c", Date.now(), (row) => ({
      ...row,
      life: { ...row.life, retryAt: Date.now() },
      dueAt: Date.now(),
    }))
    await keeper.tick()
    expect((await keeper.waitFor("c", runs, limit))?.life.phase).toBe("running")
    await keeper.stop()
  })
})

describe("the limits of an owner's creates and minutes", () => {
  const runs = ({ life }: StoredSession) => life.phase === "running"
  const waits = ({ life }: StoredSession) => life.lastError !== undefined

  test("a prompt above the creates of an hour waits with a note, and what the provider refused does not count", async () => {
    const store = openSqliteStore(":memory:")
    let refusals = 0
    const inner = memoryProvider()
    const provider: SandboxProvider = {
      ...inner,
      create: async (spec, limit) => {
        if (spec.session !== "refused") return inner.create(spec, limit)
        refusals += 1
        return { is: "refused", why: "no such image" }
      },
    }
    const quotas = createQuotas({ store, clock: systemClock, quotas: { createsPerHour: 2 } })
    const { keeper, notes } = await keeperOn(store, provider, "r1", { quotas })
    const limit = AbortSignal.timeout(20_000)
    const start = async (id: string, holds: (row: StoredSession) => boolean) => {
      await keeper.add({ id, tenant: "user:a", provider: "noop", environment: {} })
      await keeper.want(id, "running")
      return keeper.waitFor(id, holds, limit)
    }
    await start("refused", ({ life }) => life.lastError !== undefined && !life.pending)
    expect(refusals).toBeGreaterThan(0)
    expect((await start("a", runs))?.life.phase).toBe("running")
    // An end frees a place of those that run, not one of the hour.
    await keeper.want("a", "ended")
    await keeper.waitFor("a", ({ life }) => life.phase === "ended", limit)
    expect((await start("b", runs))?.life.phase).toBe("running")
    expect((await start("c", waits))?.life.lastError).toContain("2 sandboxes in the last hour")
    expect(notes.filter((text) => text.includes("in the last hour"))).toHaveLength(1)
    expect(inner.calls.filter((call) => call === "create")).toHaveLength(2)
    await keeper.stop()
  })

  test("the minutes of a day are counted by the caretaker and stop the next start, not the one that runs", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider()
    const clock = createManualClock(100 * DAY)
    const quotas = createQuotas({ store, clock, quotas: { minutesPerDay: 2 } })
    const { keeper } = await keeperOn(store, provider, "r1", { quotas })
    const limit = AbortSignal.timeout(20_000)
    const start = async (id: string, holds: (row: StoredSession) => boolean) => {
      await keeper.add({ id, tenant: "user:a", provider: "noop", environment: {} })
      await keeper.want(id, "running")
      return keeper.waitFor(id, holds, limit)
    }
    await start("a", runs)
    const caretaker = createCaretaker({
      store: {
        ...store,
        list: async () => (await store.list()).map((row) => ({ ...row, createdAt: 0 })),
      },
      keeper,
      provider,
      replica: "r1",
      clock,
      log: silentLog,
      idleMs: 900_000,
      volumeMs: DAY,
      runtimeKey: "k",
    })
    for (let minute = 0; minute <= 2; minute += 1) {
      await caretaker.round()
      clock.advance(60_000)
    }
    expect(await store.secondsOf("user:a", 100)).toBe(120)
    expect((await start("b", waits))?.life.lastError).toContain("2 minutes today")
    expect((await store.find("a"))?.life.phase).toBe("running")
    await keeper.stop()
  })
})

describe("snapshots that are not needed", () => {
  const at = 100 * DAY
  const snapshot = (id: string, age: number) => ({ id, session: "s", createdAt: at - age })
  const state = { current: "new", hasEnded: false, lifeMs: undefined }

  test("the current one and one younger than a day stay; older and third ones go", () => {
    expect(snapshotsToRemove([snapshot("new", 1), snapshot("old", 2)], state, at)).toEqual([])
    const three = [snapshot("new", 1), snapshot("old", 2), snapshot("older", 3)]
    expect(snapshotsToRemove(three, state, at)).toEqual(["older"])
    const replacedLongAgo = [snapshot("new", 2 * DAY), snapshot("old", 3 * DAY)]
    expect(snapshotsToRemove(replacedLongAgo, state, at)).toEqual(["old"])
  })

  test("an ended session keeps none after a day, and one that the provider has deleted is forgotten", () => {
    const ended = { ...state, hasEnded: true }
    expect(snapshotsToRemove([snapshot("new", 2 * DAY)], ended, at)).toEqual(["new"])
    expect(snapshotsToRemove([snapshot("new", 1000)], ended, at)).toEqual([])
    const expired = { ...state, lifeMs: 30 * DAY }
    expect(snapshotsToRemove([snapshot("new", 30 * DAY)], expired, at)).toEqual(["new"])
  })

  test("the current snapshot of a living session is never removed while the provider keeps it", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(400), { minLength: 1, maxLength: 8 }),
        fc.nat(7),
        (ages, pick) => {
          const stored = ages.map((age, index) => snapshot(`s${index}`, age * 3_600_000))
          const current = stored[pick % stored.length]?.id
          expect(snapshotsToRemove(stored, { ...state, current }, at)).not.toContain(current)
        },
      ),
    )
  })

  test("a snapshot is renewed in the five days before its end", () => {
    expect(mustRenew(0, 30 * DAY, 24 * DAY)).toBe(false)
    expect(mustRenew(0, 30 * DAY, 25 * DAY)).toBe(true)
    expect(mustRenew(0, 30 * DAY, 30 * DAY)).toBe(false)
    expect(mustRenew(0, undefined, 300 * DAY)).toBe(false)
  })
})

describe("a round of the caretaker", () => {
  const put = async (store: FleetStore, id: string, life: Partial<Life>, at: number) =>
    store.add(
      { id, tenant: "user:a", provider: "noop", environment: {} },
      { ...newLife, ...life },
      at,
    )

  test("the seconds of running sandboxes are counted by provider and owner, and those of paused ones are not", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1_000_000)
    await put(store, "runs", { phase: "running", ref: "box" }, 1_000_000)
    await put(store, "boots", { phase: "booting", ref: "box2" }, 1_000_000)
    await put(store, "sleeps", { phase: "paused", ref: "box3" }, 1_000_000)
    const metrics = createMetrics()
    const caretaker = createCaretaker({
      runtimeKey: "v1",
      store,
      provider: memoryProvider(),
      replica: "r1",
      clock,
      log: silentLog,
      idleMs: 900_000,
      volumeMs: 7 * DAY,
      metrics,
      keeper: { want: async () => undefined },
    })
    await caretaker.round()
    clock.advance(60_000)
    await caretaker.round()
    clock.advance(30_000)
    await caretaker.round()
    // This process did not do the rounds for an hour: another one may have counted.
    clock.advance(3_600_000)
    await caretaker.round()
    expect(metrics.text([])).toMatch(
      /^sandpiper_seconds_total\{provider="noop",tenant="[^"]+"\} 180$/m,
    )
  })

  test("the snapshots of a forgotten session are removed with their rows, except one that another session is made from", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const removed: string[] = []
    let isAway = true
    const provider: SandboxProvider = {
      ...memoryProvider(),
      removeSnapshot: async (id) => {
        if (isAway) return { is: "unknown", why: "no answer" }
        removed.push(id)
        return { is: "ok", value: undefined }
      },
    }
    await put(store, "stays", { snapshot: { id: "of-stays" } }, 0)
    await put(store, "gone", { snapshot: { id: "of-gone" } }, 0)
    await put(store, "copy", { snapshot: { id: "taken-over" } }, 0)
    for (const [id, session] of [
      ["of-stays", "stays"],
      ["of-gone", "gone"],
      ["older-of-gone", "gone"],
      ["taken-over", "gone"],
      ["of-the-base", "base:v1"],
    ] as const)
      await store.addSnapshot({ id, session, createdAt: clock.now() })
    await store.forget("gone")
    const { round } = createCaretaker({
      runtimeKey: "v1",
      store,
      provider,
      replica: "r1",
      clock,
      log: silentLog,
      idleMs: 900_000,
      volumeMs: 7 * DAY,
      keeper: { want: async () => undefined },
    })
    const kept = async () => (await store.snapshots()).map(({ id }) => id).toSorted()
    await round()
    // What is not removed at the provider is not forgotten either.
    expect(await kept()).toHaveLength(5)
    isAway = false
    await round()
    expect(removed.toSorted()).toEqual(["of-gone", "older-of-gone"])
    expect(await kept()).toEqual(["of-stays", "of-the-base", "taken-over"])
  })

  test("busy sandboxes are kept alive every ten minutes by one replica, snapshots and volumes are removed in time", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const now = clock.now()
    const calls: string[] = []
    const inner = memoryProvider({ volumes: true, snapshotLifeMs: 30 * DAY })
    const ok = { is: "ok", value: undefined } as const
    const provider: SandboxProvider = {
      ...inner,
      keepAlive: async (ref, ms) => {
        calls.push(`keep ${ref} ${ms}`)
        return ok
      },
      removeSnapshot: async (id) => {
        calls.push(`snapshot ${id}`)
        return ok
      },
      removeVolume: async (name) => {
        calls.push(`volume ${name}`)
        return ok
      },
    }
    await put(store, "busy", { phase: "running", ref: "box", busy: true }, now)
    await put(store, "idle", { phase: "running", ref: "box2" }, now)
    await put(store, "ended", { phase: "ended", wanted: "ended" }, now - 8 * DAY)
    await put(store, "orchestrator:ann:1", { phase: "ended", wanted: "ended" }, now - 8 * DAY)
    await put(store, "lately", { phase: "ended", wanted: "ended" }, now - DAY)
    await put(store, "saved", { snapshot: { id: "two" } }, now)
    await store.addSnapshot({ id: "one", session: "saved", createdAt: now - 27 * DAY })
    await store.addSnapshot({ id: "two", session: "saved", createdAt: now - 26 * DAY })
    await store.addSnapshot({ id: "base1", session: "base:v1", createdAt: now - DAY })
    await store.addSnapshot({ id: "base2", session: "base:v2", createdAt: now - 2 * DAY })
    const build = { tenant: "pool", kind: "base", provider: "noop", environment: {} } as const
    await store.add({ ...build, id: "build-of-a-dead-process" }, newLife, now - 31 * 60_000)
    await store.add({ ...build, id: "build-under-way" }, newLife, now - 60_000)
    const wanted: string[] = []
    const caretakerOf = (replica: string) =>
      createCaretaker({
        runtimeKey: "v2",
        store,
        provider,
        replica,
        clock,
        log: silentLog,
        idleMs: 900_000,
        volumeMs: 7 * DAY,
        keeper: {
          want: async (id, what) => {
            wanted.push(`${id} ${what}`)
            return undefined
          },
        },
      })
    await caretakerOf("r1").round()
    await caretakerOf("r2").round()
    expect(calls.toSorted()).toEqual([
      "keep box 2700000",
      "snapshot base1",
      "snapshot one",
      "volume workspace-ended",
    ])
    expect(wanted).toContain("saved running")
    expect(wanted).toContain("build-of-a-dead-process ended")
    expect(wanted).not.toContain("build-under-way ended")
    expect((await store.snapshots()).map(({ id }) => id)).toEqual(["two", "base2"])
    clock.advance(11 * 60_000)
    await caretakerOf("r2").round()
    expect(calls.filter((one) => one.startsWith("keep"))).toHaveLength(2)
  })
})
