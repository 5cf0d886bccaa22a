/** Hibernation around a snapshot: pauses the runner, removes secrets from disk, and resumes it. Every wait has a limit. */
import { within, type Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { SNAPSHOT_SLEEP_MS } from "../../wire/snapshot-times.ts"
import type { Hook } from "./control-socket.ts"
import type { Scrubbed } from "./detect-restore.ts"

export interface HibernationOptions {
  readonly clock: Clock
  readonly log: Log
  /** Resolves when no turn and no workflow runs. */
  readonly settled: () => Promise<void>
  /** Cancels running turns and workflows. */
  readonly stopTurns: (why: string) => void
  /** Resolves to true if the session agent acknowledges all frames within `ms`. */
  readonly flush: (ms: number) => Promise<boolean>
  /** Removes secrets from the disk. */
  readonly scrub: () => Promise<Scrubbed>
  /** Flushes all pending writes to the disk. */
  readonly sync: () => Promise<void>
  readonly services: { readonly start: () => Promise<void>; readonly stop: () => Promise<void> }
  /** Rereads the secrets and ends gateway connections that were authenticated with the old ones. */
  readonly renewSecrets: () => void
  /** Replaces connections that the restore has broken. */
  readonly reconnect: (why: string) => void
  /** Updates data that may be outdated after the restore. */
  readonly refresh: () => Promise<void>
}

export interface Hibernation {
  readonly runHook: (hook: Hook) => Promise<Readonly<Record<string, unknown>>>
  /** Calls `run` now, or after waking up. */
  readonly whenAwake: (run: () => void) => void
  readonly restored: (why: string) => Promise<void>
  readonly stop: () => void
}

const FINISH_MS = 15_000
const END_MS = 5000
const FLUSH_MS = 10_000

export const createHibernation = (options: HibernationOptions): Hibernation => {
  const { clock, log } = options
  let asleep: Promise<Asleep> | undefined
  let delayed: (() => void)[] = []
  let cancelLimit = () => {}

  const fallAsleep = async (): Promise<Asleep> => {
    log.info("snapshot.preparing")
    const finished = await within(clock, FINISH_MS, options.settled())
    if (!finished) {
      options.stopTurns("the sandbox is being stored")
      await within(clock, END_MS, options.settled())
    }
    const flushed = await options.flush(FLUSH_MS)
    await options.services.stop()
    const scrubbed = await options.scrub()
    await options.sync()
    const report = {
      turns: finished ? "finished" : "ended",
      flushed,
      scrubbed: scrubbed.files.length,
    }
    log.info("snapshot.ready", report)
    return { scrubbed, report }
  }

  /** Each pre-snapshot hook announces a snapshot of its own, which gets the whole time. */
  const startLimit = () => {
    cancelLimit()
    cancelLimit = clock.after(SNAPSHOT_SLEEP_MS, () => void wake("no snapshot was taken"))
  }

  const wake = async (why: string) => {
    const sleep = asleep
    if (sleep === undefined) return
    const { scrubbed } = await sleep
    if (asleep !== sleep) return
    asleep = undefined
    cancelLimit()
    log.info("snapshot.over", { why })
    await scrubbed.putBack()
    void options.services.start()
    const waiting = delayed
    delayed = []
    for (const run of waiting) run()
  }

  return {
    runHook: async (hook) => {
      if (hook === "post-snapshot") {
        await wake("the post-snapshot hook was called")
        return { awake: true }
      }
      const sleep = (asleep ??= fallAsleep())
      const { report } = await sleep
      if (asleep === sleep) startLimit()
      return report
    },
    whenAwake: (run) => {
      if (asleep === undefined) return run()
      delayed.push(run)
    },
    restored: async (why) => {
      log.warn("host.restored", { why })
      // First, because waking takes a while, and old tokens must not be accepted in that time.
      options.renewSecrets()
      await wake(why)
      options.reconnect(why)
      await options.refresh()
    },
    stop: () => cancelLimit(),
  }
}

interface Asleep {
  readonly scrubbed: Scrubbed
  readonly report: Readonly<Record<string, unknown>>
}
