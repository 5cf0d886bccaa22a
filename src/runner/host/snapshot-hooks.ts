/** Putting the runner to sleep for a snapshot and waking it: in order, with a limit each, and never for ever. */
import { within, type Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import type { Hook } from "./control-socket.ts"
import type { Scrubbed } from "./detect-restore.ts"

export interface HibernationOptions {
  readonly clock: Clock
  readonly log: Log
  /** Resolves when no turn runs. */
  readonly settled: () => Promise<void>
  /** Ends the turns that run. */
  readonly stopTurns: (why: string) => void
  /** Resolves true when the session agent has everything. */
  readonly flush: (ms: number) => Promise<boolean>
  /** Takes secrets off the disk. */
  readonly scrub: () => Promise<Scrubbed>
  /** Writes everything out that is still in memory. */
  readonly sync: () => Promise<void>
  readonly services: { readonly start: () => Promise<void>; readonly stop: () => Promise<void> }
  /** The secrets of before may be others now, and whoever came in with them is out. */
  readonly renewSecrets: () => void
  /** Connections of before are worth nothing: makes new ones. */
  readonly reconnect: (why: string) => void
  /** What was fresh before may be old by now. */
  readonly refresh: () => Promise<void>
}

export interface Hibernation {
  readonly runHook: (hook: Hook) => Promise<Readonly<Record<string, unknown>>>
  /** Runs it now, or after waking up. */
  readonly whenAwake: (run: () => void) => void
  readonly restored: (why: string) => Promise<void>
  readonly stop: () => void
}

const FINISH_MS = 15_000
const END_MS = 5000
const FLUSH_MS = 10_000
/** A snapshot takes under a minute; a sandbox that still runs by then was not stored, and has work to do. */
const SLEEP_LIMIT_MS = 180_000

export const createHibernation = (options: HibernationOptions): Hibernation => {
  const { clock, log } = options
  let asleep: Promise<Asleep> | undefined
  let held: (() => void)[] = []
  let cancelLimit = () => {}

  const fallAsleep = async (): Promise<Asleep> => {
    log.info("snapshot.preparing")
    const finished = await within(clock, FINISH_MS, options.settled())
    if (!finished) {
      options.stopTurns("the sandbox is put to sleep")
      await within(clock, END_MS, options.settled())
    }
    const flushed = await options.flush(FLUSH_MS)
    await options.services.stop()
    const scrubbed = await options.scrub()
    await options.sync()
    cancelLimit = clock.after(SLEEP_LIMIT_MS, () => void wake("no snapshot was taken"))
    const report = {
      turns: finished ? "finished" : "ended",
      flushed,
      scrubbed: scrubbed.files.length,
    }
    log.info("snapshot.ready", report)
    return { scrubbed, report }
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
    const waiting = held
    held = []
    for (const run of waiting) run()
  }

  return {
    runHook: async (hook) => {
      if (hook === "post-snapshot") {
        await wake("the hook said so")
        return { awake: true }
      }
      asleep ??= fallAsleep()
      return (await asleep).report
    },
    whenAwake: (run) => {
      if (asleep === undefined) return run()
      held.push(run)
    },
    restored: async (why) => {
      log.warn("host.restored", { why })
      // First: waking may take a while, in which nobody is to come in with what was good before.
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
