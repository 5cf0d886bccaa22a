/** When a workspace is saved and restored, with a clock that the test advances. */
import { describe, expect, test } from "bun:test"
import { StorageError } from "../../../../src/runner/sandbox/sync/object-calls.ts"
import { createWorkspaceSync } from "../../../../src/runner/sandbox/sync/workspace-sync.ts"
import { createManualClock } from "../../../kit/clock.ts"
import { silentLog } from "../../../kit/log.ts"
import { untilTrue } from "../../../kit/until-true.ts"
import { failureOf } from "../../../kit/failure-of.ts"

const SAVED = { files: 1, uploaded: 1, bytes: 1, removed: 0, leftOut: 0 }

const start = (fact?: string) => {
  const clock = createManualClock(0)
  const memory = { fact }
  const state = {
    saves: 0,
    restores: 0,
    /** What a look at the files finds. */
    differs: false,
    saveFailure: undefined as Error | undefined,
    restoreFailure: undefined as Error | undefined,
  }
  const sync = createWorkspaceSync({
    copy: {
      save: async () => {
        state.saves += 1
        if (state.saveFailure) throw state.saveFailure
        state.differs = false
        return SAVED
      },
      hasChanged: async () => state.differs,
      restore: async () => {
        state.restores += 1
        if (state.restoreFailure) throw state.restoreFailure
        return 3
      },
    },
    memory: {
      read: () => memory.fact,
      write: (text) => {
        memory.fact = text
      },
    },
    isOffline: (error) => error instanceof Error && error.message === "offline",
    clock,
    log: silentLog,
  })
  // Sleep: yields, so that everything happens that does not wait for the clock.
  const idle = () => Bun.sleep(0)
  return { clock, memory, state, sync, idle }
}

describe("saving", () => {
  test("the workspace is saved 30 seconds after the last change, and not again without one", async () => {
    const { clock, state, sync, idle } = start("restored")
    sync.changed()
    clock.advance(29_000)
    sync.changed()
    clock.advance(29_999)
    await idle()
    expect(state.saves).toBe(0)
    clock.advance(1)
    await untilTrue(() => state.saves === 1, "the save")
    clock.advance(600_000)
    await idle()
    expect(state.saves).toBe(1)
  })

  test("a workspace that never rests is saved every five minutes", async () => {
    const { clock, state, sync, idle } = start("restored")
    for (let second = 0; second < 300; second += 10) {
      expect(state.saves).toBe(0)
      sync.changed()
      clock.advance(10_000)
      await idle()
    }
    await untilTrue(() => state.saves === 1, "the save")
  })

  test("before the sandbox ends only a changed workspace is saved, and a failure does not prevent the end", async () => {
    const { state, sync } = start("restored")
    await sync.settle()
    expect(state.saves).toBe(0)
    sync.changed()
    state.saveFailure = new StorageError("the object storage answered 503", 503)
    await sync.settle()
    expect(state.saves).toBe(1)
    state.saveFailure = undefined
    await sync.settle()
    expect(state.saves).toBe(2)
    await sync.settle()
    expect(state.saves).toBe(2)
  })

  test("before the sandbox sleeps or ends a change that nobody has reported is saved too", async () => {
    const { state, sync } = start("restored")
    state.differs = true
    await sync.settle()
    expect(state.saves).toBe(1)
    await sync.settle()
    expect(state.saves).toBe(1)
  })

  test("a change that nobody has reported is saved within five minutes", async () => {
    const { clock, state, sync, idle } = start("restored")
    await sync.restore()
    for (const saves of [1, 2]) {
      state.differs = true
      clock.advance(300_000)
      await untilTrue(() => state.saves === saves, `save ${saves}`)
      await idle()
    }
    sync.stop()
    state.differs = true
    clock.advance(600_000)
    await idle()
    expect(state.saves).toBe(2)
  })

  test("nothing is saved in the minutes after the sandbox was asked to sleep", async () => {
    const { clock, state, sync, idle } = start("restored")
    await sync.restore()
    clock.advance(299_000)
    await sync.settle()
    state.differs = true
    clock.advance(180_000)
    await idle()
    expect(state.saves).toBe(0)
  })

  test("a failed save is tried again later", async () => {
    const { clock, state, sync, idle } = start("restored")
    state.saveFailure = new StorageError("the object storage cannot be reached", undefined)
    sync.changed()
    clock.advance(30_000)
    await untilTrue(() => state.saves === 1, "the first try")
    state.saveFailure = undefined
    await idle()
    clock.advance(30_000)
    await untilTrue(() => state.saves === 2, "the second try")
  })
})

describe("restoring", () => {
  test("a new sandbox restores once, and a runner that starts again in it does not", async () => {
    const { memory, state, sync } = start()
    expect(await sync.restore()).toBeUndefined()
    expect(state.restores).toBe(1)
    const again = start(memory.fact)
    expect(await again.sync.restore()).toBeUndefined()
    expect(again.state.restores).toBe(0)
  })

  test("a save that is asked for before the restore waits for it", async () => {
    const { state, sync, idle } = start()
    const saved = sync.save()
    await idle()
    expect(state.saves).toBe(0)
    await sync.restore()
    expect(await saved).toEqual(SAVED)
  })

  test("a restore that is asked for brings missing files back, and from then on the sandbox saves", async () => {
    const { state, sync, memory } = start()
    state.restoreFailure = new Error("the storage refuses")
    expect(await failureOf(sync.restoreAgain())).toContain("refuses")
    expect(memory.fact).toBeUndefined()
    state.restoreFailure = undefined
    expect(await sync.restoreAgain()).toBe(3)
    expect(await sync.save()).toEqual(SAVED)
  })

  test("a sandbox whose restore fails says so and never saves, so that the saved files stay", async () => {
    const { clock, memory, state, sync, idle } = start()
    state.restoreFailure = new StorageError("the object storage answered 500", 500)
    const restored = sync.restore()
    for (let attempt = 1; attempt < 4; attempt += 1) {
      await untilTrue(() => state.restores === attempt, `try ${attempt}`)
      await idle()
      clock.advance(2000)
    }
    expect(await restored).toContain("was not restored")
    expect(memory.fact).toBeUndefined()
    sync.changed()
    state.differs = true
    clock.advance(600_000)
    await sync.settle()
    expect(state.saves).toBe(0)
    expect(await failureOf(sync.save())).toContain("was not restored")
  })

  test("while the session agent is not connected the restore waits for it", async () => {
    const { clock, state, sync, idle } = start()
    state.restoreFailure = new Error("offline")
    const restored = sync.restore()
    for (let attempt = 1; attempt < 20; attempt += 1) {
      await untilTrue(() => state.restores === attempt, `try ${attempt}`)
      await idle()
      clock.advance(2000)
    }
    state.restoreFailure = undefined
    await untilTrue(() => state.restores === 20, "the last try")
    clock.advance(2000)
    expect(await restored).toBeUndefined()
  })
})
