/**
 * When the workspace is saved and restored. Not every change is reported: the workspace is also looked at every few minutes
 * and before the sandbox sleeps or ends. A new sandbox restores before its first prompt. If that fails, nothing is
 * saved: a workspace that is not complete must not replace the saved one.
 */
import { type Clock, sleep, within } from "../../../lib/clock.ts"
import { createInOrder } from "../../../lib/in-order.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import { createTimers } from "../../../lib/timer.ts"
import type { SavedWorkspace } from "../../../wire/operations/workspace.ts"
import { StorageError } from "./object-calls.ts"
import type { WorkspaceCopy } from "./workspace-copy.ts"

export interface WorkspaceSyncOptions {
  readonly copy: WorkspaceCopy
  /** Says that this sandbox was restored, or was not new. */
  readonly memory: {
    readonly read: () => string | undefined
    readonly write: (text: string) => void
  }
  /** True if a call failed because the session agent was not connected. */
  readonly isOffline: (error: unknown) => boolean
  readonly clock: Clock
  readonly log: Log
}

export interface WorkspaceSync {
  /** At every start, before the first prompt. Resolves to a problem that people should know, if there is one. */
  readonly restore: () => Promise<string | undefined>
  /** Writes saved files that are missing now. Resolves to their number. */
  readonly restoreAgain: () => Promise<number>
  /** Something in the workspace has changed: it is saved when it has been quiet for a while. */
  readonly changed: () => void
  /** Saves now. In a new sandbox it waits for the restore. */
  readonly save: () => Promise<SavedWorkspace>
  /** Before the sandbox sleeps or ends: looks, and saves if something has changed. It does not throw. */
  readonly settle: () => Promise<void>
  readonly stop: () => void
}

const QUIET_MS = 30_000
const LONGEST_MS = 300_000
/** Longer than a runner waits for a snapshot: nothing is saved meanwhile. */
const LOOK_MS = 300_000
const TRIES = 4
const PAUSE_MS = 2000
const RESTORE_MS = 60_000

export const createWorkspaceSync = (options: WorkspaceSyncOptions): WorkspaceSync => {
  const { copy, memory, clock, log } = options
  const timers = createTimers<"quiet" | "look">(clock.after)
  const inOrder = createInOrder()
  let isComplete = memory.read() !== undefined
  /** Resolves when the first restore has ended, also if it has failed. */
  const restoreEnded = Promise.withResolvers<void>()
  /** When the first change after the last save was noticed. */
  let changedAt: number | undefined
  let isStopped = false

  const save = (): Promise<SavedWorkspace> =>
    inOrder(async () => {
      if (!isComplete) throw new Error(NOT_RESTORED)
      timers.cancel("quiet")
      const since = changedAt
      changedAt = undefined
      const saved = await copy.save().catch((error: unknown) => {
        changedAt = since ?? changedAt
        throw error
      })
      if (saved.uploaded + saved.removed > 0) log.info("workspace.saved", { ...saved })
      return saved
    })
  const trySaving = async (): Promise<void> => {
    try {
      await save()
    } catch (error) {
      log.warn("workspace.not-saved", { error: describeError(error) })
      if (isComplete) arm(QUIET_MS)
    }
  }
  const arm = (ms: number) => {
    if (!isStopped) timers.arm("quiet", ms, () => void trySaving())
  }

  /** True if the files differ from what was saved last. */
  const hasChanged = async (): Promise<boolean> => {
    if (!isComplete) return false
    if (changedAt !== undefined) return true
    try {
      if (!(await inOrder(copy.hasChanged))) return false
      changedAt ??= clock.now()
      return true
    } catch (error) {
      log.warn("workspace.not-read", { error: describeError(error) })
      return false
    }
  }
  const lookLater = () => {
    if (!isStopped) timers.arm("look", LOOK_MS, () => void look())
  }
  const look = async (): Promise<void> => {
    lookLater()
    // A reported change is saved by its own timer.
    if (changedAt === undefined && (await hasChanged())) await trySaving()
  }

  const bringBack = async (): Promise<string | undefined> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const files = await copy.restore()
        isComplete = true
        memory.write("restored")
        if (files > 0) log.info("workspace.restored", { files })
        return undefined
      } catch (error) {
        if (isStopped) return undefined
        log.warn("workspace.not-restored", { attempt, error: describeError(error) })
        // Without the session agent there are no prompts either.
        if (options.isOffline(error)) attempt = 0
        const mayPass = options.isOffline(error) || error instanceof StorageError
        if (!mayPass || attempt >= TRIES) return `${describeError(error)}. ${NOT_RESTORED}`
        await sleep(clock, PAUSE_MS)
      }
    }
  }

  return {
    save: async () => {
      if (!isComplete) await within(clock, RESTORE_MS, restoreEnded.promise)
      return save()
    },
    restoreAgain: () =>
      inOrder(async () => {
        const files = await copy.restore()
        isComplete = true
        memory.write("restored")
        log.info("workspace.restored", { files })
        return files
      }),
    restore: async () => {
      lookLater()
      if (isComplete) return undefined
      try {
        return await bringBack()
      } finally {
        restoreEnded.resolve()
      }
    },
    changed: () => {
      const now = clock.now()
      changedAt ??= now
      arm(Math.max(0, Math.min(QUIET_MS, changedAt + LONGEST_MS - now)))
    },
    settle: async () => {
      lookLater()
      if (await hasChanged()) await trySaving()
      timers.cancel("quiet")
    },
    stop: () => {
      isStopped = true
      timers.cancel("quiet")
      timers.cancel("look")
    },
  }
}

const NOT_RESTORED =
  "The saved workspace was not restored, so this sandbox does not save its own; restart it to try again"
