/** The watch of the sandboxes' disks, with a keeper and a store, on disks whose numbers a test sets. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import type { DiskReport } from "../../src/fleet/core/disk-notes.ts"
import type { DiskSize } from "../../src/fleet/core/disk-quota.ts"
import { createDiskWatch, type DiskWatch } from "../../src/fleet/disk-watch.ts"
import type { Keeper } from "../../src/fleet/keeper.ts"
import type { SandboxDisks, SandboxProvider } from "../../src/fleet/providers/contract.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { createManualClock, type ManualClock } from "../kit/clock.ts"
import { untilTrue } from "../kit/until-true.ts"
import { keeperOn, memoryProvider, silentLog } from "./kit/fleet.ts"

const GIB = 1024 ** 3
const limit = { bytes: 10 * GIB, inodes: 1000 }
const size = (gib: number): DiskSize => ({ bytes: gib * GIB, inodes: 10 })

interface TestDisks extends SandboxDisks {
  free: number
  readonly uses: Map<string, DiskSize>
  readonly reports: Map<string, DiskReport>
  /** `ref holds`, for each measurement, and `ref action`, for each action. */
  readonly calls: string[]
  fails: boolean
}

const testDisks = (): TestDisks => {
  const disks: TestDisks = {
    free: 90,
    fails: false,
    uses: new Map(),
    reports: new Map(),
    calls: [],
    room: async () => ({
      free: { bytes: disks.free * GIB, inodes: 1e6 },
      total: { bytes: 100 * GIB, inodes: 1e6 },
    }),
    check: async (ref, { holds }, decide) => {
      disks.calls.push(`${ref} ${holds ? "held" : "running"}`)
      if (disks.fails) return { is: "unknown", why: "the disk does not answer" }
      const action = decide(disks.uses.get(ref) ?? size(0))
      if (action !== "continue") disks.calls.push(`${ref} ${action}`)
      return { is: "ok", value: action }
    },
    recover: () => void disks.calls.push("recover"),
    report: (ref) => disks.reports.get(ref),
    setReport: (ref, report) => void disks.reports.set(ref, report),
  }
  return disks
}

let store: FleetStore
let clock: ManualClock
let disks: TestDisks
let provider: SandboxProvider
let keeper: Keeper
let watch: DiskWatch
/** `session: text`, of the watch; the keeper has its own. */
let notes: string[]
let keeperNotes: readonly string[]

const openWatch = async (replica = "r1") =>
  createDiskWatch({
    store,
    keeper,
    provider,
    disks,
    limit,
    deployment: await store.deployment(),
    replica,
    clock,
    log: silentLog,
    note: (session, text) => void notes.push(`${session}: ${text}`),
  })

beforeEach(async () => {
  store = openSqliteStore(":memory:")
  clock = createManualClock(1_000_000)
  disks = testDisks()
  provider = memoryProvider({ supportsPause: true })
  notes = []
  const fleet = await keeperOn(store, provider, "r1", {
    clock,
    roomRefusal: () => watch.refusal(),
  })
  keeper = fleet.keeper
  keeperNotes = fleet.notes
  watch = await openWatch()
})
afterEach(async () => {
  await watch.stop()
  await keeper.stop()
  await store.close()
})

/** The ref of its running sandbox. */
const start = async (id: string): Promise<string> => {
  await keeper.add({ id, tenant: "t", provider: "noop", environment: {} })
  await keeper.want(id, "running")
  return phaseOf(id, "running")
}
const phaseOf = async (id: string, phase: string): Promise<string> => {
  await untilTrue(async () => {
    const life = (await store.find(id))?.life
    return life?.phase === phase && life.pending === undefined
  }, `the phase ${phase} of ${id}`)
  return (await store.find(id))?.life.ref ?? ""
}
/** Looks after so many seconds, in which the disk has got so many GiB less. */
const look = async (seconds: number, written = 0): Promise<void> => {
  clock.advance(seconds * 1000)
  disks.free -= written
  await watch.round()
}

test("a sandbox that fills its disk is told in its conversation at 90 percent, stopped at its limit, and told when it has room", async () => {
  const [one, other] = [await start("one"), await start("other")]
  await look(0)
  disks.uses.set(one, size(9.2))
  await look(11, 9.2)
  expect(disks.reports.get(one)).toMatchObject({ state: "near" })
  disks.uses.set(one, size(10.3))
  await look(1, 1.1)
  disks.uses.set(one, size(3))
  await look(11, -7.3)
  expect(notes.map((note) => note.slice(0, 45))).toEqual([
    "one: The disk of this sandbox is nearly full:",
    "one: The disk of this sandbox is full: 10.3 G",
    "one: The disk of this sandbox has room again:",
  ])
  expect(disks.calls.filter((call) => call.startsWith(one))).toEqual([
    `${one} running`,
    `${one} running`,
    `${one} held`,
    `${one} end-programs`,
    `${one} running`,
  ])
  expect(disks.calls.filter((call) => call === `${other} end-programs`)).toEqual([])
  expect(disks.reports.get(one)).toMatchObject({ state: "ok", usedBytes: 3 * GIB })
})

test("a full sandbox that goes on writing sleeps, and only a person's wish wakes it", async () => {
  const one = await start("one")
  disks.uses.set(one, size(10))
  await look(0)
  disks.uses.set(one, size(10.6))
  await look(3, 0.6)
  expect(disks.calls.at(-1)).toBe(`${one} end-agent`)
  await phaseOf("one", "paused")
  await keeper.tick()
  expect((await store.find("one"))?.life).toMatchObject({ phase: "paused", wanted: "asleep" })
  await keeper.want("one", "running")
  await phaseOf("one", "running")
})

test("what is known of a disk outlives the program: a sandbox that was full before is not stopped and told again", async () => {
  const one = await start("one")
  disks.uses.set(one, size(10))
  await look(0)
  expect(notes).toHaveLength(1)
  clock.advance(60_000)
  const next = await openWatch("r2")
  await next.round()
  expect(notes).toHaveLength(1)
  expect(disks.calls).toEqual([
    "recover",
    `${one} running`,
    `${one} end-programs`,
    "recover",
    `${one} running`,
  ])
  await next.stop()
})

test("of two programs on one disk only one watches, and the other one when that is gone", async () => {
  await start("one")
  await look(0)
  const next = await openWatch("r2")
  await next.round()
  expect(disks.calls.filter((call) => call === "recover")).toHaveLength(1)
  clock.advance(11_000)
  await next.round()
  expect(disks.calls.filter((call) => call === "recover")).toHaveLength(2)
  await next.stop()
})

test("a sandbox of the warm pool is stopped, and nobody is told", async () => {
  await keeper.add({ id: "warm", kind: "pool", tenant: "pool", provider: "noop", environment: {} })
  await keeper.want("warm", "running")
  disks.uses.set(await phaseOf("warm", "running"), size(11))
  await look(0)
  expect(disks.calls.at(-1)).toEndWith("end-programs")
  expect(notes).toEqual([])
})

test("while the disk has no room no sandbox starts and none runs, and all go on by themselves when it has", async () => {
  await start("one")
  await look(0)
  disks.free = 0.4
  await look(1)
  await phaseOf("one", "paused")
  await keeper.add({ id: "two", tenant: "t", provider: "noop", environment: {} })
  await keeper.want("two", "running")
  const waits = async (id: string) =>
    (await store.find(id))?.life.lastError?.includes("nearly full") === true
  await untilTrue(async () => (await waits("one")) && (await waits("two")), "both wait")
  expect(keeperNotes).toHaveLength(2)
  expect(keeperNotes[0]).toContain("nearly full")
  expect(notes).toEqual([])
  // Below the line at which it began there is not enough yet.
  disks.free = 2.2
  await look(60)
  await keeper.tick()
  expect((await store.find("one"))?.life.phase).toBe("paused")
  disks.free = 3
  await look(60)
  await untilTrue(async () => {
    clock.advance(60_000)
    await keeper.tick()
    const lives = [await store.find("one"), await store.find("two")]
    return lives.every((known) => known?.life.phase === "running")
  }, "both run")
  expect(keeperNotes).toHaveLength(2)
})

test("while the room is low only the sandbox that grows is paused", async () => {
  const [one, other] = [await start("one"), await start("other")]
  disks.uses.set(one, size(1))
  disks.uses.set(other, size(1))
  await look(0)
  disks.free = 1.9
  disks.uses.set(other, size(1.1))
  await look(1)
  expect(disks.calls.slice(-3)).toEqual([`${one} held`, `${other} held`, `${other} pause`])
})

test("a disk that cannot be measured stops nothing, and the watch goes on", async () => {
  const one = await start("one")
  disks.fails = true
  await look(0)
  await look(11)
  disks.fails = false
  disks.uses.set(one, size(10))
  await look(11)
  expect(disks.calls.at(-1)).toBe(`${one} end-programs`)
})
