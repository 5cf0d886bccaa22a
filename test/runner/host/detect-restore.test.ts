/** Snapshots: scrubbing secrets before, detecting a restore after, and hibernation with its time limit. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import {
  chown,
  link,
  mkdtemp,
  readFile,
  readdir,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  createHibernation,
  type HibernationOptions,
} from "../../../src/runner/host/snapshot-hooks.ts"
import {
  sandboxBootId,
  scrubField,
  scrubFiles,
  watchForRestore,
} from "../../../src/runner/host/detect-restore.ts"
import { type Moment, restoredBetween } from "../../../src/runner/host/restore-state.ts"
import { openStateDb, readFact, scrubFact, writeFact, writeOut } from "../../../src/lib/state-db.ts"
import {
  SNAPSHOT_BEGIN_MS,
  SNAPSHOT_CALL_MS,
  SNAPSHOT_SLEEP_MS,
} from "../../../src/wire/snapshot-times.ts"
import { createManualClock } from "../../kit/clock.ts"
import { silentLog as log } from "../../kit/log.ts"

const moment = (change: Partial<Moment> = {}): Moment => ({
  bootId: "a",
  wall: 1_000_000,
  steady: 5000,
  ...change,
})

describe("detecting a restore", () => {
  test("a changed boot id is a restore", () => {
    expect(restoredBetween(moment(), moment({ bootId: "b" }), 5000)).toBe("the kernel was rebooted")
  })

  test("a jump of the wall clock against the monotonic clock is a restore", () => {
    const later = moment({ wall: 1_000_000 + 605_000, steady: 10_000 })
    expect(restoredBetween(moment(), later, 5000)).toBe("the clock jumped by 600 s")
  })

  test("a check long after it was due is a restore even if both clocks agree", () => {
    const later = moment({ wall: 1_060_000, steady: 65_000 })
    expect(restoredBetween(moment(), later, 5000)).toBe("the runner was frozen for 55 s")
  })

  test("passing time and a clock correction of seconds are not a restore", () => {
    const later = moment({ wall: 1_060_000, steady: 65_000 })
    expect(restoredBetween(moment(), later, 60_000)).toBeUndefined()
    const right = moment({ wall: 1_015_000, steady: 10_000 })
    expect(restoredBetween(moment(), right, 5000)).toBeUndefined()
  })

  test("the watch reports each restore once", () => {
    const clock = createManualClock()
    const reported: string[] = []
    let now = moment()
    const stop = watchForRestore({
      clock,
      moment: () => now,
      onRestore: (why) => void reported.push(why),
    })
    clock.advance(5000)
    now = moment({ bootId: "b" })
    clock.advance(20_000)
    expect(reported).toEqual(["the kernel was rebooted"])
    stop()
    now = moment({ bootId: "c" })
    clock.advance(20_000)
    expect(reported).toHaveLength(1)
  })
})

test("the sandbox's boot id is the same on every read", () => {
  expect(sandboxBootId()).toBe(sandboxBootId())
  expect(sandboxBootId()).toMatch(/^[0-9a-f-]{36}\/\d+$/)
})

describe("scrubbing secrets", () => {
  let root: string
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "snapshot-"))
  })
  afterEach(() => rm(root, { recursive: true, force: true }))

  test("scrubbed files are removed and put back with content, owner and mode", async () => {
    const path = join(root, "auth.json")
    await writeFile(path, '{"key":"sk-secret"}')
    // Only root can change the owner, and only a root runner has an agent with another user.
    const owner = process.getuid?.() === 0 ? 4242 : (process.getuid?.() ?? 0)
    await chown(path, owner, process.getgid?.() ?? 0)
    const scrubbed = await scrubFiles([path, join(root, "never-there")])
    expect(scrubbed.files).toEqual([path])
    expect(await readdir(root)).toEqual([])
    await scrubbed.putBack()
    expect(await readFile(path, "utf8")).toBe('{"key":"sk-secret"}')
    const { mode, uid } = await stat(path)
    expect(mode & 0o777).toBe(0o600)
    expect(uid).toBe(owner)
  })

  test("symbolic links and hard links are not scrubbed", async () => {
    const victim = join(root, "victim")
    const [soft, hard] = [join(root, "soft"), join(root, "hard")]
    await writeFile(victim, "untouched")
    await symlink(victim, soft)
    await link(victim, hard)
    const scrubbed = await scrubFiles([soft, hard])
    expect(scrubbed.files).toEqual([])
    expect(await readFile(victim, "utf8")).toBe("untouched")
  })

  test("one field of a JSON file is overwritten in place and put back", async () => {
    const path = join(root, "run.json")
    const content = `${JSON.stringify({ pid: 7, password: 'a "quoted" one', url: "x" })}\n`
    await writeFile(path, content)
    const scrubbed = await scrubField(path, "password")
    expect(scrubbed.files).toEqual([path])
    expect(JSON.parse(await readFile(path, "utf8"))).toEqual({
      pid: 7,
      password: "0".repeat(16),
      url: "x",
    })
    await scrubbed.putBack()
    expect(await readFile(path, "utf8")).toBe(content)
    expect((await scrubField(join(root, "never-there"), "password")).files).toEqual([])
  })

  test("a scrubbed fact leaves no bytes in the database file or its write-ahead log", async () => {
    const db = openStateDb(root)
    writeFact(db, "agent.runtime", '{"providerKeys":{"x":"sk-very-secret-indeed"}}')
    writeFact(db, "other", "stays")
    const scrubbed = scrubFact(db, "agent.runtime")
    writeOut(db)
    for (const file of await readdir(root)) {
      expect((await readFile(join(root, file))).includes("sk-very-secret")).toBeFalse()
    }
    expect(readFact(db, "other")).toBe("stays")
    scrubbed?.putBack()
    expect(readFact(db, "agent.runtime")).toContain("sk-very-secret")
    db.close()
  })
})

describe("hibernation", () => {
  const order: string[] = []
  const clock = createManualClock()
  const create = (change: Partial<HibernationOptions> = {}) => {
    order.length = 0
    return createHibernation({
      clock,
      log,
      settled: async () => void order.push("settled"),
      stopTurns: () => void order.push("stop turns"),
      flush: async () => {
        order.push("flush")
        return true
      },
      scrub: async () => {
        order.push("scrub")
        return { files: ["x"], putBack: async () => void order.push("put back") }
      },
      sync: async () => void order.push("sync"),
      services: {
        start: async () => void order.push("services on"),
        stop: async () => void order.push("services off"),
      },
      renewSecrets: () => void order.push("renew secrets"),
      reconnect: (why) => void order.push(`reconnect: ${why}`),
      refresh: async () => void order.push("refresh"),
      ...change,
    })
  }

  test("before a snapshot turns finish, frames are flushed, services stop, secrets are scrubbed and the disk is synced, in this order", async () => {
    const report = await create().runHook("pre-snapshot")
    expect(order).toEqual(["settled", "flush", "services off", "scrub", "sync"])
    expect(report).toEqual({ turns: "finished", flushed: true, scrubbed: 1 })
  })

  test("a turn that does not finish in time is cancelled before a snapshot", async () => {
    let idle = false
    const done: (() => void)[] = []
    const hibernation = create({
      settled: () =>
        idle ? Promise.resolve() : new Promise<void>((resolve) => done.push(resolve)),
      stopTurns: () => {
        idle = true
        for (const resolve of done) resolve()
      },
    })
    const asked = hibernation.runHook("pre-snapshot")
    clock.advance(15_000)
    expect(await asked).toMatchObject({ turns: "ended" })
  })

  test("two pre-snapshot hooks cause one hibernation", async () => {
    const hibernation = create()
    await Promise.all([hibernation.runHook("pre-snapshot"), hibernation.runHook("pre-snapshot")])
    expect(order.filter((what) => what === "scrub")).toHaveLength(1)
  })

  test("a frame that arrives during hibernation is handled after waking", async () => {
    const hibernation = create()
    const taken: string[] = []
    hibernation.whenAwake(() => void taken.push("before"))
    await hibernation.runHook("pre-snapshot")
    hibernation.whenAwake(() => void taken.push("while"))
    expect(taken).toEqual(["before"])
    await hibernation.runHook("post-snapshot")
    expect(taken).toEqual(["before", "while"])
    expect(order.slice(-2)).toEqual(["put back", "services on"])
  })

  test("a restore first renews secrets, then wakes the runner and reconnects", async () => {
    const hibernation = create()
    await hibernation.runHook("pre-snapshot")
    await hibernation.restored("the clock jumped by 600 s")
    expect(order.slice(-5)).toEqual([
      "renew secrets",
      "put back",
      "services on",
      "reconnect: the clock jumped by 600 s",
      "refresh",
    ])
  })

  test("the runner sleeps longer than the longest call for a snapshot, counted from the last hook", async () => {
    const time = createManualClock()
    const hibernation = create({ clock: time })
    await hibernation.runHook("pre-snapshot")
    time.advance(SNAPSHOT_SLEEP_MS - 1)
    await hibernation.runHook("pre-snapshot")
    time.advance(SNAPSHOT_BEGIN_MS + SNAPSHOT_CALL_MS)
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve()
    expect(order).not.toContain("put back")
    expect(order.filter((what) => what === "scrub")).toHaveLength(1)
    time.advance(SNAPSHOT_SLEEP_MS)
    while (!order.includes("put back")) await Promise.resolve()
  })

  test("the runner wakes by itself if no snapshot is taken", async () => {
    const hibernation = create()
    await hibernation.runHook("pre-snapshot")
    clock.advance(SNAPSHOT_SLEEP_MS)
    while (!order.includes("services on")) await Promise.resolve()
    expect(order).not.toContain("reconnect: no snapshot was taken")
  })
})
