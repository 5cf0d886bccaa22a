/** Quotas, keep-alives, snapshots and volumes: the rules, and the calls that the provider gets. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
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
import { keeperOn, memoryProvider, testCaretaker } from "./kit/fleet.ts"
import { type Flags, lifeWith } from "./kit/life.ts"

const DAY = 86_400_000

describe("the quota of an owner", () => {
  const lifeOf = (phase: NonNullable<Flags["phase"]>, since?: number): Life =>
    lifeWith({
      phase,
      ...(phase === "running" || phase === "paused" ? { ref: "r" } : {}),
      ...(since !== undefined && {
        pending: { number: 1, call: { do: "create", generation: 1 }, since, dirty: false },
      }),
    })

  test("at most the quota of sandboxes is allowed, and exactly the quota if enough are requested", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("running", "paused", "ended", "absent"), {
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

  test("a paused sandbox that is resumed comes after those that run, whatever their names", () => {
    const resumes: Life = {
      ...lifeOf("paused"),
      pending: { number: 1, call: { do: "resume", ref: "r" }, since: 5, dirty: false },
    }
    const all = [
      { id: "a", life: resumes },
      { id: "b", life: lifeOf("running") },
    ]
    expect(isWithinQuota("a", all, 1)).toBe(false)
    expect(isWithinQuota("b", all, 1)).toBe(true)
    expect(isWithinQuota("a", all, 2)).toBe(true)
  })

  test("a paused sandbox that is resumed to be saved is not refused by a full quota", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider({ snapshot: "copy" })
    const { keeper, notes } = await keeperOn(store, provider, "r1", {
      quotas: createQuotas({ store, clock: systemClock, quotas: { running: 1 } }),
    })
    for (const id of ["saved", "runs"])
      await keeper.add({ id, tenant: "user:a", provider: "noop", environment: {} })
    const limit = AbortSignal.timeout(60_000)
    const until = (id: string, phase: Life["phase"]) =>
      keeper.waitFor(id, ({ life }) => life.phase === phase, limit)
    await keeper.want("saved", "running")
    await until("saved", "running")
    await keeper.want("saved", "asleep")
    await until("saved", "paused")
    await keeper.want("runs", "running")
    await until("runs", "running")
    await keeper.want("saved", "asleep", true)
    await keeper.waitFor(
      "saved",
      ({ life }) => life.attempts > 0 || life.phase === "running",
      limit,
    )
    expect(provider.calls).toContain("resume")
    expect(notes).toEqual([])
    await keeper.stop()
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
    const limit = AbortSignal.timeout(60_000)
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
    const limit = AbortSignal.timeout(60_000)
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
    const limit = AbortSignal.timeout(60_000)
    const start = async (id: string, holds: (row: StoredSession) => boolean) => {
      await keeper.add({ id, tenant: "user:a", provider: "noop", environment: {} })
      await keeper.want(id, "running")
      return keeper.waitFor(id, holds, limit)
    }
    await start("a", runs)
    const caretaker = testCaretaker({
      store: {
        ...store,
        present: async () => (await store.present()).map((row) => ({ ...row, createdAt: 0 })),
      },
      keeper,
      provider,
      clock,
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
  const state = { current: "new", missing: [], hasEnded: false, lifeMs: undefined }

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

  test("a snapshot that a create did not find stays while its session lives", () => {
    const found = { ...state, missing: ["old", "older"] }
    const three = [snapshot("new", 2 * DAY), snapshot("old", 3 * DAY), snapshot("older", 4 * DAY)]
    expect(snapshotsToRemove(three, found, at)).toEqual([])
    expect(snapshotsToRemove(three, { ...found, hasEnded: true }, at)).toEqual([
      "new",
      "old",
      "older",
    ])
    expect(snapshotsToRemove(three, { ...found, lifeMs: 4 * DAY }, at)).toEqual(["older"])
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
  const put = async (store: FleetStore, id: string, flags: Flags, at: number) =>
    store.add({ id, tenant: "user:a", provider: "noop", environment: {} }, lifeWith(flags), at)

  test("the seconds of running sandboxes are counted by provider and owner, and those of paused ones are not", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1_000_000)
    await put(store, "runs", { phase: "running", ref: "box" }, 1_000_000)
    await put(store, "boots", { phase: "booting", ref: "box2" }, 1_000_000)
    await put(store, "sleeps", { phase: "paused", ref: "box3" }, 1_000_000)
    const metrics = createMetrics()
    const caretaker = testCaretaker({
      store,
      provider: memoryProvider(),
      clock,
      metrics,
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
    const { round } = testCaretaker({
      store,
      provider,
      clock,
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

  test("a snapshot that a create did not find is not deleted at the provider before its session ends", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const removed: string[] = []
    const inner = memoryProvider()
    const provider: SandboxProvider = {
      ...inner,
      // As with the credentials of another account.
      create: async (spec, limit) =>
        spec.image.kind === "snapshot" ? { is: "missing" } : inner.create(spec, limit),
      removeSnapshot: async (id) => {
        removed.push(id)
        return { is: "ok", value: undefined }
      },
    }
    await put(store, "s", { snapshot: { id: "saved" } }, 0)
    await put(store, "copy", { snapshot: { id: "of-another" } }, 0)
    await store.addSnapshot({ id: "saved", session: "s", createdAt: 0 })
    await store.addSnapshot({ id: "of-another", session: "forgotten", createdAt: 0 })
    const { keeper, notes } = await keeperOn(store, provider, "r1", { clock })
    const limit = AbortSignal.timeout(60_000)
    for (const id of ["s", "copy"]) {
      await keeper.want(id, "running")
      await keeper.waitFor(id, ({ life }) => !life.pending, limit)
    }
    clock.advance(60_000)
    await keeper.tick()
    await keeper.waitFor("s", ({ life }) => life.phase === "running", limit)
    expect(notes.filter((text) => text.startsWith("The snapshot of this session"))).toHaveLength(2)
    const { round } = testCaretaker({ store, provider, clock })
    await round()
    expect(removed).toEqual([])
    for (const id of ["s", "copy"]) {
      await keeper.want(id, "ended")
      await keeper.waitFor(id, ({ life }) => life.phase === "ended", limit)
    }
    await round()
    expect(removed.toSorted()).toEqual(["of-another", "saved"])
    await keeper.stop()
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
      testCaretaker({
        runtimeKey: "v2",
        store,
        provider,
        replica,
        clock,
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

  const caretakerOn = (
    store: FleetStore,
    provider: SandboxProvider,
    clock: ReturnType<typeof createManualClock>,
    wanted: string[] = [],
  ) =>
    testCaretaker({
      store,
      provider,
      clock,
      keeper: {
        want: async (id, what) => {
          wanted.push(`${id} ${what}`)
          return undefined
        },
      },
    })
  const ok = { is: "ok", value: undefined } as const

  test("a sandbox between two short turns and one of the warm pool are kept alive, one that is to sleep is not", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const kept: string[] = []
    const keepAlive = async (ref: string) => {
      kept.push(ref)
      return ok
    }
    const running = { phase: "running", wanted: "running" } as const
    await put(store, "between-turns", { ...running, ref: "used" }, clock.now())
    await put(store, "idle", { ...running, wanted: "asleep", ref: "idle" }, clock.now())
    const row = { tenant: "pool", provider: "noop", environment: {} } as const
    const lifeOf = (ref: string) => lifeWith({ ...running, ref })
    await store.add({ ...row, id: "warm", kind: "pool" }, lifeOf("warm"), clock.now())
    await store.add({ ...row, id: "other", kind: "external" }, lifeOf("external"), clock.now())
    await caretakerOn(store, { ...memoryProvider(), keepAlive }, clock).round()
    expect(kept.toSorted()).toEqual(["used", "warm"])
  })

  test("a sandbox is kept alive for the idle time and the buffer of the settings", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const kept: number[] = []
    const keepAlive = async (_ref: string, ms: number) => {
      kept.push(ms)
      return ok
    }
    await put(store, "used", { phase: "running", wanted: "running", ref: "box" }, clock.now())
    const { round } = testCaretaker({
      store,
      provider: { ...memoryProvider(), keepAlive },
      clock,
      idleMs: 60_000,
      idleBufferMs: 1_200_000,
    })
    await round()
    expect(kept).toEqual([1_260_000])
  })

  test("several sandboxes are kept alive at the same time, so that a slow provider does not delay the last one", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const both = Promise.withResolvers<void>()
    let asked = 0
    const keepAlive = async () => {
      asked += 1
      if (asked === 2) both.resolve()
      await both.promise
      return ok
    }
    for (const id of ["a", "b"])
      await put(store, id, { phase: "running", wanted: "running", ref: id }, clock.now())
    await caretakerOn(store, { ...memoryProvider(), keepAlive }, clock).round()
    expect(asked).toBe(2)
  })

  test("the snapshot of another session agent is not renewed: it would run, and its id would change", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const wanted: string[] = []
    const old = clock.now() - 26 * DAY
    for (const [id, kind] of [
      ["own", "hub"],
      ["other", "external"],
    ] as const) {
      const row = { id, kind, tenant: "user:a", provider: "noop", environment: {} } as const
      await store.add(row, { ...newLife, snapshot: { id: `of-${id}` } }, old)
      await store.addSnapshot({ id: `of-${id}`, session: id, createdAt: old })
    }
    const provider = memoryProvider({ snapshotLifeMs: 30 * DAY })
    await caretakerOn(store, provider, clock, wanted).round()
    expect(wanted).toEqual(["own running"])
  })

  test("a volume that could not be removed is tried again after an hour, and one that was removed is not", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    let tries = 0
    const provider: SandboxProvider = {
      ...memoryProvider({ volumes: true }),
      removeVolume: async () => {
        tries += 1
        return tries === 1 ? { is: "unknown", why: "no answer" } : ok
      },
    }
    await put(store, "ended", { phase: "ended", wanted: "ended" }, clock.now() - 8 * DAY)
    const { round } = caretakerOn(store, provider, clock)
    const after = async (ms: number) => {
      clock.advance(ms)
      await round()
      await store.purge(clock.now())
      return tries
    }
    expect(await after(0)).toBe(1)
    expect(await after(60_000)).toBe(1)
    expect(await after(3_600_000)).toBe(2)
    expect(await after(30 * DAY)).toBe(2)
  })

  test("a round reads sessions that have ended a few times only, and deletes their rows when nothing needs them", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const end = clock.now()
    const removed: string[] = []
    const provider: SandboxProvider = {
      ...memoryProvider({ volumes: true }),
      removeVolume: async (name) => {
        removed.push(name)
        return ok
      },
    }
    const ended = lifeWith({ phase: "ended", wanted: "ended" })
    const row = { tenant: "user:a", provider: "noop", environment: {} } as const
    await store.add({ ...row, id: "hub" }, ended, end)
    await store.add({ ...row, id: "thread", threadKey: "c:1" }, ended, end)
    await store.add({ ...row, id: "build", kind: "base" }, ended, end)
    await store.add({ ...row, id: "asleep" }, newLife, end)
    let reads = 0
    const counting: FleetStore = {
      ...store,
      endedToTidy: async (...args) => {
        const found = await store.endedToTidy(...args)
        reads += found.length
        return found
      },
    }
    const { round } = caretakerOn(counting, provider, clock)
    const rows = async () => (await store.page(undefined, 10)).map(({ id }) => id).toSorted()
    for (let day = 0; day < 89; day += 1) {
      await round()
      clock.advance(DAY)
    }
    expect(removed.toSorted()).toEqual(["workspace-build", "workspace-hub", "workspace-thread"])
    expect(reads).toBe(3)
    expect(await rows()).toEqual(["asleep", "hub", "thread"])
    clock.advance(DAY)
    await round()
    // The conversation of a thread must not begin anew by a late call.
    expect(await rows()).toEqual(["asleep", "thread"])
    clock.advance(300 * DAY)
    await round()
    expect(await rows()).toEqual(["asleep", "thread"])
    expect(reads).toBe(4)
  })

  test("the snapshots of an ended session are kept for a day", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    await put(store, "ended", { phase: "ended", wanted: "ended" }, clock.now())
    await store.addSnapshot({ id: "last", session: "ended", createdAt: clock.now() })
    const { round } = caretakerOn(store, memoryProvider(), clock)
    await round()
    expect(await store.snapshots()).toHaveLength(1)
    clock.advance(DAY)
    await round()
    expect(await store.snapshots()).toEqual([])
  })

  test("a session whose care fails does not keep the others from theirs", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(1000 * DAY)
    const removed: string[] = []
    const provider: SandboxProvider = {
      ...memoryProvider({ volumes: true }),
      removeSnapshot: async () => Promise.reject(new Error("the directory is busy")),
      removeVolume: async (name) => {
        if (name === "workspace-a") throw new Error("the directory is busy")
        removed.push(name)
        return ok
      },
    }
    for (const id of ["a", "b"])
      await put(store, id, { phase: "ended", wanted: "ended" }, clock.now() - 8 * DAY)
    await store.addSnapshot({ id: "orphan", session: "forgotten", createdAt: 0 })
    await caretakerOn(store, provider, clock).round()
    expect(removed).toEqual(["workspace-b"])
    expect((await store.snapshots()).map(({ id }) => id)).toEqual(["orphan"])
  })
})
