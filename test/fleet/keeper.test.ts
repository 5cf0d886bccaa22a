/** The keeper and the sweeper with a store and a provider in memory. */
import { describe, expect, test } from "bun:test"
import { createSweeper } from "../../src/fleet/sweeper.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import type { StoredSession } from "../../src/fleet/store/ports.ts"
import type { SandboxProvider } from "../../src/fleet/providers/contract.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { keeperOn, memoryProvider, silentLog } from "./kit/fleet.ts"

const session = (id: string) =>
  ({ id, tenant: "user:a", provider: "noop", environment: {} }) as const
const limit = () => AbortSignal.timeout(10_000)
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
