/** The keeper and the sweeper with a store and a provider in memory. */
import { describe, expect, test } from "bun:test"
import { rowOf } from "../../src/fleet/store/life-row.ts"
import { createSweeper } from "../../src/fleet/sweeper.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { createQuotas } from "../../src/fleet/quotas.ts"
import type { FleetStore, StoredSession } from "../../src/fleet/store/ports.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { createMetrics } from "../../src/fleet/metrics.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createManualClock } from "../kit/clock.ts"
import { recordingLog } from "../kit/log.ts"
import { untilTrue } from "../kit/until-true.ts"
import { keeperOn, memoryProvider, silentLog } from "./kit/fleet.ts"
import { changedLife } from "./kit/life.ts"

const session = (id: string) =>
  ({ id, tenant: "user:a", provider: "noop", environment: {} }) as const
const limit = () => AbortSignal.timeout(60_000)
const isRunning = ({ life }: StoredSession) => life.phase === "running"

const sandboxesOf = async (provider: SandboxProvider, deployment: string, id: string) =>
  (await Array.fromAsync(provider.list({ deployment, session: id }))).map(({ ref }) => ref)

describe("the keeper", () => {
  test("fifty parallel wishes for one session make one sandbox", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider()
    const { keeper } = await keeperOn(store, provider)
    await keeper.add(session("s"))
    await Promise.all(Array.from({ length: 50 }, () => keeper.want("s", "running")))
    await keeper.waitFor("s", isRunning, limit())
    expect(provider.calls).toEqual(["create"])
    expect(await sandboxesOf(provider, await store.deployment(), "s")).toEqual(["sp-s-1"])
  })

  test("a create whose answer is lost is looked for and adopted", async () => {
    const store = openSqliteStore(":memory:")
    const lost = ["create"]
    const provider = memoryProvider({}, (call) => (lost.pop() === call ? "after" : undefined))
    const { keeper } = await keeperOn(store, provider)
    await keeper.add(session("s"))
    await keeper.want("s", "running")
    keeper.start()
    const running = await keeper.waitFor("s", isRunning, limit())
    await keeper.stop()
    expect(running?.life).toMatchObject({ ref: "sp-s-1", generation: 1 })
    expect(provider.calls).toEqual(["create"])
  })

  test("a session sleeps, wakes and ends, and the provider confirms the end", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider()
    const { keeper } = await keeperOn(store, provider)
    await keeper.add(session("s"))
    await keeper.want("s", "running")
    await keeper.waitFor("s", isRunning, limit())
    await keeper.want("s", "asleep")
    await keeper.waitFor("s", ({ life }) => life.phase === "paused", limit())
    await keeper.want("s", "running")
    await keeper.waitFor("s", isRunning, limit())
    await keeper.want("s", "ended")
    const ended = await keeper.waitFor("s", ({ life }) => life.phase === "ended", limit())
    expect(ended?.life.phase).toBe("ended")
    expect(provider.calls).toEqual(["create", "pause", "resume", "terminate"])
    expect(await sandboxesOf(provider, await store.deployment(), "s")).toEqual([])
  })

  test("the call of a replica that died is looked for by another replica", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider()
    const hanging: SandboxProvider = {
      ...provider,
      create: async (spec, signal) => {
        await provider.create(spec, signal)
        return new Promise(() => {})
      },
    }
    const first = await keeperOn(store, hanging, "dead")
    await first.keeper.add(session("s"))
    await first.keeper.want("s", "running")
    // Its lease has run out.
    await store.change("s", Date.now(), (row) => ({ ...row, callUntil: Date.now() - 1 }))
    const second = await keeperOn(store, provider, "alive")
    second.keeper.start()
    const running = await second.keeper.waitFor("s", isRunning, limit())
    await second.keeper.stop()
    expect(running?.life).toMatchObject({ ref: "sp-s-1", generation: 1 })
    expect(provider.calls).toEqual(["create"])
  })

  test("a look at a sandbox whose runner does not connect is a health retry, a look of the sweep is not", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider({ startsRunner: true })
    const metrics = createMetrics()
    const lines: string[] = []
    const { keeper } = await keeperOn(store, provider, "r1", {
      metrics,
      log: recordingLog(lines),
      policy: {
        can: provider.can,
        bootMs: 1,
        relinkMs: 60_000,
        idleMs: 900_000,
        pausedMs: undefined,
        minimumVersion: undefined,
      },
    })
    const retries = () => [
      /^sandpiper_health_retries_total.* (\d+)$/m.exec(metrics.text([]))?.[1],
      lines.filter((line) => line.includes("sandbox.health.retry")).length,
    ]
    await keeper.add(session("s"))
    await keeper.want("s", "running")
    await keeper.waitFor("s", ({ life }) => life.phase === "booting", limit())
    await keeper.runner("s", { generation: 1, linked: true, busy: false })
    // The list is older than the sandbox: the fleet looks itself.
    await keeper.seen("s", [])
    await keeper.waitFor("s", ({ life }) => !life.unsure && !life.pending, limit())
    expect(provider.calls).toContain("look")
    expect(retries()).toEqual(["0", 0])
    await keeper.add(session("silent"))
    await keeper.want("silent", "running")
    await untilTrue(async () => {
      await keeper.tick()
      return (await store.find("silent"))?.life.lastError !== undefined
    }, "look at the sandbox whose runner is silent")
    expect(retries()[1]).toBeGreaterThan(0)
    expect(retries()[0]).toBe(String(retries()[1]))
    await keeper.stop()
  })

  test("a session whose sandbox is at another provider waits for it, says so once, and loses nothing", async () => {
    const store = openSqliteStore(":memory:")
    const before = memoryProvider()
    const first = await keeperOn(store, before)
    await first.keeper.add(session("s"))
    await first.keeper.want("s", "running")
    await first.keeper.waitFor("s", isRunning, limit())
    await first.keeper.want("s", "asleep")
    const paused = await first.keeper.waitFor("s", ({ life }) => life.phase === "paused", limit())
    await first.keeper.stop()

    const other = { ...memoryProvider(), name: "local" } as const
    const clock = createManualClock(Date.now())
    const second = await keeperOn(store, other, "r2", { clock })
    const sweeper = createSweeper({
      store,
      provider: other,
      keeper: second.keeper,
      deployment: await store.deployment(),
      replica: "r2",
      clock,
      log: silentLog,
    })
    await second.keeper.want("s", "running")
    for (let minute = 0; minute < 10; minute += 1) {
      await untilTrue(async () => !(await store.find("s"))?.life.pending, "answer of the call")
      await sweeper.sweep()
      clock.advance(60_000)
      await second.keeper.tick()
    }
    await second.keeper.stop()
    expect(other.calls).toEqual([])
    expect(second.notes).toHaveLength(1)
    expect(second.notes[0]).toContain("at the provider noop, and this fleet runs with local")
    expect((await store.find("s"))?.life).toMatchObject({ ref: paused?.life.ref, phase: "paused" })

    const third = await keeperOn(store, before, "r3", { clock })
    await untilTrue(async () => {
      clock.advance(60_000)
      await third.keeper.tick()
      return (await store.find("s"))?.life.phase === "running"
    }, "the sandbox of before")
    await third.keeper.stop()
    expect(before.calls.filter((call) => call === "create")).toHaveLength(1)
  })

  test("a quota that the database cannot answer leaves a call in doubt, which is tried again", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider()
    let isAway = true
    const flaky = {
      ...store,
      admit: async (...asked: Parameters<FleetStore["admit"]>) => {
        if (isAway) throw new Error("the database is away")
        return store.admit(...asked)
      },
    }
    const quotas = createQuotas({ store: flaky, clock: systemClock, quotas: { running: 5 } })
    const { keeper } = await keeperOn(store, provider, "r1", { quotas })
    await keeper.add(session("s"))
    await keeper.want("s", "running")
    const answered = await keeper.waitFor("s", ({ life }) => !life.pending, limit())
    expect(answered && rowOf(answered.life)).toMatchObject({
      doubt: true,
      lastError: "the database is away",
    })
    isAway = false
    keeper.start()
    expect((await keeper.waitFor("s", isRunning, limit()))?.life.phase).toBe("running")
    await keeper.stop()
    expect(provider.calls).toEqual(["create"])
  })

  test("a snapshot is remembered in the transaction that stores its answer", async () => {
    const store = openSqliteStore(":memory:")
    const inner = memoryProvider({ snapshot: "copy", supportsPause: false })
    const provider: SandboxProvider = {
      ...inner,
      snapshot: async () => ({ is: "ok", value: { id: "snap-1" } }),
    }
    // The replica dies before it can write anything more.
    const dying = { ...store, addSnapshot: () => new Promise<void>(() => {}) }
    const { keeper } = await keeperOn(dying, provider)
    await keeper.add(session("s"))
    await keeper.want("s", "running")
    await keeper.waitFor("s", isRunning, limit())
    await keeper.want("s", "asleep")
    await keeper.waitFor("s", ({ life }) => life.snapshot !== undefined, limit())
    expect(await store.snapshots()).toMatchObject([{ id: "snap-1", session: "s" }])
    const asleep = await keeper.waitFor("s", ({ life }) => life.phase === "absent", limit())
    expect(asleep?.life.phase).toBe("absent")
  })

  test("a provider that refuses creates gets one of all waiting ones after a minute", async () => {
    const store = openSqliteStore(":memory:")
    const clock = createManualClock(Date.now())
    let [asked, refuses] = [0, true]
    const inner = memoryProvider()
    const provider: SandboxProvider = {
      ...inner,
      create: async (spec, signal) => {
        asked += 1
        return refuses ? { is: "refused", why: "no credit" } : inner.create(spec, signal)
      },
    }
    const { keeper } = await keeperOn(store, provider, "r1", { clock })
    const ids = ["a", "b", "c", "d", "e", "f", "g", "h"]
    const settled = async () => {
      for (const id of ids) await keeper.waitFor(id, ({ life }) => !life.pending, limit())
    }
    for (const id of ids) {
      await keeper.add(session(id))
      await keeper.want(id, "running")
      await keeper.waitFor(id, ({ life }) => !life.pending, limit())
    }
    expect(asked).toBe(5)
    for (const expected of [6, 7]) {
      clock.advance(61_000)
      await keeper.tick()
      await settled()
      expect(asked).toBe(expected)
    }
    refuses = false
    for (let minute = 0; minute < 2; minute += 1) {
      clock.advance(61_000)
      await keeper.tick()
      await settled()
    }
    expect(inner.calls.filter((call) => call === "create")).toHaveLength(8)
    await keeper.stop()
  })

  test("a session whose change fails does not keep the others that are due from theirs", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider()
    const broken: FleetStore = {
      ...store,
      change: (id, at, decide) =>
        id === "broken" ? Promise.reject(new Error("lock timeout")) : store.change(id, at, decide),
    }
    const { keeper } = await keeperOn(broken, provider)
    for (const [id, dueAt] of [
      ["broken", 1],
      ["well", 2],
    ] as const) {
      await keeper.add(session(id))
      await store.change(id, 0, (row) => ({
        ...row,
        life: changedLife(row.life, { wanted: "running" }),
        dueAt,
      }))
    }
    await keeper.tick()
    expect((await keeper.waitFor("well", isRunning, limit()))?.life.phase).toBe("running")
    await keeper.stop()
  })

  test("a runner of an earlier generation changes nothing", async () => {
    const store = openSqliteStore(":memory:")
    const provider = memoryProvider({ startsRunner: true })
    const { keeper } = await keeperOn(store, provider)
    await keeper.add(session("s"))
    await keeper.want("s", "running")
    await keeper.waitFor("s", ({ life }) => life.phase === "booting", limit())
    await keeper.runner("s", { generation: 0, linked: true, busy: false })
    expect((await store.find("s"))?.life.phase).toBe("booting")
    await keeper.runner("s", { generation: 1, linked: true, busy: false })
    expect((await store.find("s"))?.life.phase).toBe("running")
  })
})

describe("the sweep", () => {
  const label = (deployment: string, id: string) => ({
    session: id,
    generation: 1,
    name: `sp-${id}-1`,
    labels: { deployment, tenant: "user:a", session: id, generation: "1" },
    image: { kind: "image" as const, id: "base" },
    environment: {},
    volumes: [],
    ports: [],
    resources: {},
    idleMs: 1,
    lifeMs: 1,
  })

  test("a hundred leaked sandboxes are gone after one sweep; foreign and young ones stay", async () => {
    const store = openSqliteStore(":memory:")
    const deployment = await store.deployment()
    const provider = memoryProvider()
    const { keeper } = await keeperOn(store, provider)
    await keeper.add(session("kept"))
    await keeper.want("kept", "running")
    await keeper.waitFor("kept", isRunning, limit())
    for (let index = 0; index < 100; index++)
      await provider.create(label(deployment, `leaked-${index}`), limit())
    await provider.create(label("another-deployment", "foreign"), limit())
    const sweeperAt = (ms: number) =>
      createSweeper({
        store,
        provider,
        keeper,
        deployment,
        replica: "r1",
        clock: { ...systemClock, now: () => Date.now() + ms },
        log: silentLog,
      })
    expect(await sweeperAt(0).sweep()).toMatchObject({ seen: 101, leaked: [], terminated: 0 })
    expect((await sweeperAt(3_600_000).sweep(true)).leaked).toHaveLength(100)
    expect(await sweeperAt(3_600_000).sweep()).toMatchObject({ seen: 101, terminated: 100 })
    const left = await Array.fromAsync(provider.list({ deployment }))
    expect(left.map(({ ref }) => ref)).toEqual(["sp-kept-1"])
    const foreign = await Array.fromAsync(provider.list({ deployment: "another-deployment" }))
    expect(foreign).toHaveLength(1)
  })

  test("a sweep ends leaked sandboxes also if snapshots cannot be listed and one sandbox cannot be ended", async () => {
    const store = openSqliteStore(":memory:")
    const deployment = await store.deployment()
    const inner = memoryProvider()
    const provider: SandboxProvider = {
      ...inner,
      listSnapshots: async function* () {
        yield await Promise.reject(new Error("the list is incomplete"))
      },
      terminate: async (ref) => {
        if (ref === "sp-stuck-1") throw new Error("the directory is busy")
        return inner.terminate(ref)
      },
    }
    const { keeper } = await keeperOn(store, provider)
    for (const id of ["stuck", "leaked"]) await provider.create(label(deployment, id), limit())
    const sweeper = createSweeper({
      store,
      provider,
      keeper,
      deployment,
      replica: "r1",
      clock: { ...systemClock, now: () => Date.now() + 3_600_000 },
      log: silentLog,
    })
    expect(await sweeper.sweep()).toMatchObject({ seen: 2, terminated: 1, lostSnapshots: [] })
    expect((await Array.fromAsync(provider.list({ deployment }))).map(({ ref }) => ref)).toEqual([
      "sp-stuck-1",
    ])
  })

  test("a sweeper that is stopped during a sweep does not sweep again", async () => {
    const store = openSqliteStore(":memory:")
    const deployment = await store.deployment()
    const gate = Promise.withResolvers<void>()
    const clock = createManualClock(Date.now())
    let sweeps = 0
    const provider: SandboxProvider = {
      ...memoryProvider(),
      list: async function* () {
        sweeps += 1
        await gate.promise
        yield* []
      },
    }
    const { keeper } = await keeperOn(store, provider)
    const lines: string[] = []
    const log = recordingLog(lines)
    const sweeper = createSweeper({ store, provider, keeper, deployment, replica: "r", clock, log })
    sweeper.start()
    await untilTrue(() => sweeps === 1, "first sweep")
    sweeper.stop()
    gate.resolve()
    await untilTrue(() => lines.some((line) => line.includes("sweep.done")), "end of the sweep")
    // Sleep: yields to the event loop so that the sweeper could plan its next sweep.
    await Bun.sleep(0)
    clock.advance(3_600_000)
    // Sleep: yields to the event loop so that a planned sweep could begin.
    await Bun.sleep(0)
    expect(sweeps).toBe(1)
  })

  test("a late sandbox of a session that has ended is ended, also if another session cannot be compared", async () => {
    const store = openSqliteStore(":memory:")
    const deployment = await store.deployment()
    const provider = memoryProvider()
    const { keeper } = await keeperOn(store, provider)
    for (const id of ["stuck", "over"]) {
      await keeper.add(session(id))
      await keeper.want(id, "running")
      await keeper.waitFor(id, isRunning, limit())
    }
    await keeper.want("over", "ended")
    await keeper.waitFor("over", ({ life }) => life.phase === "ended", limit())
    // A create that the provider finished late.
    await provider.create({ ...label(deployment, "over"), name: "late" }, limit())
    const sweeper = createSweeper({
      store,
      provider,
      keeper: {
        ...keeper,
        seen: async (id, found) => {
          if (id === "stuck") throw new Error("lock timeout")
          return keeper.seen(id, found)
        },
      },
      deployment,
      replica: "r1",
      clock: systemClock,
      log: silentLog,
    })
    // It is the session's own, not one of an unknown session.
    expect(await sweeper.sweep()).toMatchObject({ seen: 2, leaked: [] })
    await keeper.waitFor("over", ({ life }) => life.doomed.length === 0 && !life.pending, limit())
    expect(await sandboxesOf(provider, deployment, "over")).toEqual([])
  })

  test("a second sandbox of a session is ended, and the session keeps its own", async () => {
    const store = openSqliteStore(":memory:")
    const deployment = await store.deployment()
    const provider = memoryProvider()
    const { keeper } = await keeperOn(store, provider)
    await keeper.add(session("s"))
    await keeper.want("s", "running")
    await keeper.waitFor("s", isRunning, limit())
    await provider.create({ ...label(deployment, "s"), name: "stray" }, limit())
    await createSweeper({
      store,
      provider,
      keeper,
      deployment,
      replica: "r1",
      clock: systemClock,
      log: silentLog,
    }).sweep()
    await keeper.waitFor("s", ({ life }) => life.doomed.length === 0 && !life.pending, limit())
    expect(await sandboxesOf(provider, deployment, "s")).toEqual(["sp-s-1"])
  })
})
