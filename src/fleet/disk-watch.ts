/**
 * Watches the disks of sandboxes that share one with this program: a sandbox above its limit is stopped, and none runs while the disk
 * has no room left. It needs no right of the kernel, and works on every file system; docs/decisions/0046-limits-of-disks.md.
 */
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../lib/log.ts"
import { diskNote, diskReport } from "./core/disk-notes.ts"
import {
  type DiskAction,
  type DiskEffect,
  type DiskEvent,
  type DiskNews,
  type DiskRoom,
  type DiskSize,
  type DiskState,
  growthOf,
  hasChanged,
  newDisk,
  roomLevel,
  type RoomLevel,
  stepDisk,
} from "./core/disk-quota.ts"
import type { Keeper } from "./keeper.ts"
import type { Metrics } from "./metrics.ts"
import type { SandboxDisks, SandboxInfo, SandboxProvider } from "./providers/contract.ts"
import type { FleetStore } from "./store/ports.ts"

export interface DiskWatchOptions {
  readonly store: FleetStore
  readonly keeper: Pick<Keeper, "want" | "seen">
  readonly provider: SandboxProvider
  readonly disks: SandboxDisks
  readonly limit: DiskSize
  readonly deployment: string
  readonly replica: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: Pick<Metrics, "add"> | undefined
  /** Writes into the conversation of a session. */
  readonly note: (session: string, text: string) => void
}

export interface DiskWatch {
  /** Why no sandbox starts now. Undefined: the disk has room. */
  readonly refusal: () => string | undefined
  /** Looks once, and resolves when nothing is measured any more. */
  readonly round: () => Promise<void>
  readonly start: () => void
  /** Resolves when nothing is measured any more. */
  readonly stop: () => Promise<void>
}

/** A process writes a gigabyte in a second, so the disk is looked at often: one call of the system. */
const LOOK_MS = 100
/** The sandboxes are files, which take longer to read. */
const LIST_MS = 1000
const LEASE_MS = 10_000
const RENEW_MS = 3000

const MOST_NAMED = 5

interface Watched {
  info: SandboxInfo
  state: DiskState
}

export const createDiskWatch = (options: DiskWatchOptions): DiskWatch => {
  const { store, keeper, provider, disks, clock, log } = options
  const policy = { limit: options.limit }
  const watched = new Map<string, Watched>()
  const measurements = new Set<Promise<void>>()
  let room: DiskRoom | undefined
  let level: RoomLevel = "enough"
  const stopped = new AbortController()
  let isMine = false
  let leaseAt = 0
  let listAt = 0
  let cancel = () => {}

  /** The conversation of a sandbox of the warm pool has not begun. */
  const tell = async (session: string, news: DiskNews, use: DiskSize): Promise<void> => {
    const kind = (await store.find(session))?.kind
    if (kind !== "pool" && kind !== "base") options.note(session, diskNote(news, use, policy.limit))
  }

  const step = (one: Watched, event: DiskEvent): readonly DiskEffect[] => {
    const [state, effects] = stepDisk(one.state, event, policy)
    one.state = state
    return effects
  }

  const report = (ref: string, { level: fullness, use, ceiling }: DiskState): void => {
    if (!use) return
    try {
      disks.setReport(ref, diskReport(fullness, use, policy.limit, ceiling))
    } catch (error) {
      // The disk is full, or the sandbox has just been removed.
      log.warn("disk.not-reported", { ref, error: describeError(error) })
    }
  }

  /** The keeper learns that the sandbox stands still: it is looked at, and goes on when it may. */
  const foundPaused = async (session: string): Promise<void> => {
    const found: SandboxInfo[] = []
    for await (const info of provider.list({ deployment: options.deployment, session }))
      found.push(info)
    await keeper.seen(session, found)
  }

  const afterAction = async ({ info }: Watched, action: DiskAction): Promise<void> => {
    if (action === "continue" || info.session === undefined) return
    options.metrics?.add("disk_stops_total", { action })
    log.warn("disk.stopped", { session: info.session, ref: info.ref, action })
    // Another session agent decides itself when its sandbox sleeps.
    const isOurs = (await store.find(info.session))?.kind !== "external"
    if (action === "end-agent" && isOurs) await keeper.want(info.session, "asleep")
    if (action === "pause") await foundPaused(info.session)
  }

  const measure = async (one: Watched, holds: boolean): Promise<void> => {
    const { ref, session } = one.info
    const begun = clock.now()
    let news: DiskNews | undefined
    const decide = (use: DiskSize): DiskAction => {
      const at = clock.now()
      const effects = step(one, { type: "measured", at, use, tookMs: at - begun, room: level })
      news = effects.find((effect) => effect.do === "tell")?.news
      // Before anything is ended: who sees its end can read why.
      report(ref, one.state)
      return effects.find((effect) => effect.do === "act")?.action ?? "continue"
    }
    const answer = await disks.check(ref, { holds, limit: stopped.signal }, decide)
    if (answer.is !== "ok") {
      log.debug("disk.not-measured", { ref, ...answer })
      if (one.state.isMeasuring) step(one, { type: "not-measured", at: clock.now() })
    }
    const { use } = one.state
    if (news && use && session !== undefined) {
      log.info(`disk.${news}`, { session, ref, ...use })
      await tell(session, news, use)
    }
    if (answer.is === "ok") await afterAction(one, answer.value)
  }

  const track = (work: Promise<void>) => {
    const settled = work
      .catch((error: unknown) => log.warn("disk.failed", { error: describeError(error) }))
      .finally(() => measurements.delete(settled))
    measurements.add(settled)
  }

  /** No room is left: what runs is stopped, whoever has filled the disk. */
  const pauseAll = () => {
    for (const one of watched.values()) {
      if (one.state.isMeasuring) continue
      one.state = { ...one.state, isMeasuring: true }
      track(pauseOne(one))
    }
  }
  const pauseOne = async (one: Watched): Promise<void> => {
    const { ref } = one.info
    const paused = await provider.pause(ref).finally(() => {
      one.state = { ...one.state, isMeasuring: false }
    })
    if (paused.is !== "ok") return
    watched.delete(ref)
    await afterAction(one, "pause")
  }

  /** What was known of it before this program started. */
  const stateOf = (ref: string): DiskState => {
    const known = disks.report(ref)
    if (!known) return newDisk
    const { state, ceilingBytes, ceilingFiles } = known
    const ceiling = { bytes: ceilingBytes ?? Infinity, inodes: ceilingFiles ?? Infinity }
    return { ...newDisk, level: state, ...(state === "full" && { ceiling }) }
  }

  const readList = async (): Promise<void> => {
    const running = new Set<string>()
    for await (const info of provider.list({ deployment: options.deployment })) {
      if (info.state !== "running") continue
      running.add(info.ref)
      const known = watched.get(info.ref)
      if (known) known.info = info
      else watched.set(info.ref, { info, state: stateOf(info.ref) })
    }
    for (const ref of watched.keys()) if (!running.has(ref)) watched.delete(ref)
  }

  /** Without an answer of the store, which a full disk may be the reason of, it goes on as before. */
  const renewLease = async (at: number): Promise<void> => {
    leaseAt = at + RENEW_MS
    try {
      const wasMine = isMine
      isMine = await store.lease("disks", options.replica, at, at + LEASE_MS)
      if (isMine && !wasMine) disks.recover()
    } catch (error) {
      log.warn("disk.no-lease", { error: describeError(error) })
    }
  }

  const setLevel = (now: RoomLevel, free: DiskSize): void => {
    if (now === level) return
    const largest = [...watched.values()]
      .map(({ info: { session }, state: { use } }) => ({ session, ...use }))
      .toSorted((one, other) => (other.bytes ?? 0) - (one.bytes ?? 0))
      .slice(0, MOST_NAMED)
    log[now === "enough" ? "info" : "warn"]("disk.room", { room: now, free, largest })
    level = now
  }

  const look = async (): Promise<void> => {
    const at = clock.now()
    if (at >= leaseAt) await renewLease(at)
    const now = await disks.room()
    const before = room ?? now
    room = now
    setLevel(roomLevel(level, now), now.free)
    if (!isMine) return
    if (at >= listAt) {
      listAt = at + LIST_MS
      await readList()
    }
    if (level === "none") return pauseAll()
    const change = { grown: growthOf(before, now), hasChanged: hasChanged(before, now) }
    for (const one of watched.values())
      for (const effect of step(one, { type: "look", at, ...change, room: level }))
        if (effect.do === "measure") track(measure(one, effect.holds))
  }

  const loop = async (): Promise<void> => {
    try {
      await look()
    } catch (error) {
      log.warn("disk.failed", { error: describeError(error) })
    }
    if (stopped.signal.aborted) return
    cancel = clock.after(watched.size > 0 ? LOOK_MS : LIST_MS, () => void loop())
  }

  return {
    refusal: () =>
      level === "enough"
        ? undefined
        : "the disk of the machine that runs the sandboxes is nearly full: free some space on the disk of the state directory",
    round: async () => {
      await look()
      await Promise.all(measurements)
    },
    start: () => void loop(),
    stop: async () => {
      stopped.abort()
      cancel()
      await Promise.all(measurements)
    },
  }
}
