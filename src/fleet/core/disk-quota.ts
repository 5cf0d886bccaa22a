/**
 * Decides about the disks of sandboxes that share one with this program: when one of them is measured, and what becomes of one that is
 * too full. The free space of the whole disk is read often, because that costs nothing: it says by how much one of them can have grown
 * at most. Only then the files of a sandbox are counted. Pure.
 */

export interface DiskSize {
  readonly bytes: number
  readonly inodes: number
}

/** The disk that holds the sandboxes. Without inodes in its total it makes them as they are needed. */
export interface DiskRoom {
  readonly free: DiskSize
  readonly total: DiskSize
}

/** `low`: sandboxes that grow are paused, and none starts. `none`: none runs. */
export type RoomLevel = "enough" | "low" | "none"

/** Of one sandbox, by its limit. */
export type Fullness = "ok" | "near" | "full"

/**
 * What is done with a sandbox after it was measured. `end-programs`: what the agent has started ends, and the agent goes on.
 * `end-agent`: the agent ends, too, and the sandbox sleeps. `pause`: it stands still until the disk has room.
 */
export type DiskAction = "continue" | "end-programs" | "end-agent" | "pause"

/** What the conversation is told. */
export type DiskNews = "near" | "full" | "went-on" | "freed"

export interface DiskState {
  readonly level: Fullness
  /** What the last measurement has found. */
  readonly use?: DiskSize
  /** A full sandbox may grow to this, to be tidied up. Beyond it its agent is ended. */
  readonly ceiling?: DiskSize
  /** By how much the whole disk has grown since the last measurement began. */
  readonly grown: DiskSize
  /** The same before the measurement that is under way: it may fail. */
  readonly grownBefore: DiskSize
  /** The whole disk has grown or shrunk since then. */
  readonly hasChanged: boolean
  readonly isMeasuring: boolean
  /** The last measurement has failed. The next one does not stop the sandbox: it may fail in the same way. */
  readonly hasFailed: boolean
  /** No measurement before this time, unless the sandbox may be above its limit. */
  readonly nextAt: number
  /** At this time there is one in any case, if the disk has changed. */
  readonly latestAt: number
  /** What it used when the room became low. Absent: there is enough, or it was not measured yet. */
  readonly lowUse?: DiskSize
}

export interface DiskPolicy {
  /** Infinity: no limit. */
  readonly limit: DiskSize
}

export type DiskEvent = { readonly at: number } & (
  | {
      readonly type: "look"
      /** Of the whole disk since the last look. */
      readonly grown: DiskSize
      readonly hasChanged: boolean
      readonly room: RoomLevel
    }
  | {
      readonly type: "measured"
      readonly use: DiskSize
      readonly tookMs: number
      readonly room: RoomLevel
    }
  | { readonly type: "not-measured" }
)

export type DiskEffect =
  /** `holds`: the processes of the sandbox do not run meanwhile. */
  | { readonly do: "measure"; readonly holds: boolean }
  | { readonly do: "act"; readonly action: Exclude<DiskAction, "continue"> }
  | { readonly do: "tell"; readonly news: DiskNews }

const MIB = 1024 * 1024
const GIB = 1024 * MIB
export const noSize: DiskSize = { bytes: 0, inodes: 0 }

/** Parts of a limit. */
const NEAR = 0.9
const NOT_NEAR = 0.85
const NOT_FULL = 0.95
/** What another sandbox writes could be this one's: so much above its limit it is stopped to find out. */
const SLACK = { part: 0.02, least: { bytes: 16 * MIB, inodes: 1000 } }
/** So much a full sandbox may grow, for its runner and for programs that tidy up. */
const GRACE = { part: 0.05, least: { bytes: 32 * MIB, inodes: 2000 } }
/** While the room is low. */
const GROWS: DiskSize = { bytes: 16 * MIB, inodes: 2000 }

const OFTEN_MS = 2000
const PAUSE_MS = 10_000
const LATEST_MS = 10 * 60_000
/** At most this part of the time goes into measuring one sandbox. */
const SHARE = 20

export const newDisk: DiskState = {
  level: "ok",
  grown: noSize,
  grownBefore: noSize,
  hasChanged: true,
  isMeasuring: false,
  hasFailed: false,
  nextAt: 0,
  latestAt: 0,
}

const map = (of: (name: keyof DiskSize) => number): DiskSize => ({
  bytes: of("bytes"),
  inodes: of("inodes"),
})
const add = (one: DiskSize, other: DiskSize): DiskSize => map((name) => one[name] + other[name])
const times = (size: DiskSize, part: number): DiskSize => map((name) => size[name] * part)
const partOf = (limit: DiskSize, { part, least }: typeof SLACK): DiskSize =>
  map((name) => Math.max(limit[name] * part, least[name]))
const reaches = (size: DiskSize, line: DiskSize): boolean =>
  size.bytes >= line.bytes || size.inodes >= line.inodes

/** The growth between two looks. What one sandbox deletes hides what another one writes, within one look only. */
export const growthOf = (before: DiskRoom, now: DiskRoom): DiskSize =>
  map((name) => Math.max(0, before.free[name] - now.free[name]))

export const hasChanged = (before: DiskRoom, now: DiskRoom): boolean =>
  before.free.bytes !== now.free.bytes || before.free.inodes !== now.free.inodes

/** What stays free for this program itself: its databases, its logs, the copies that it makes. */
export const reserveOf = ({ total }: DiskRoom): DiskSize => ({
  bytes: Math.min(total.bytes / 20, 2 * GIB),
  inodes: Math.min(total.inodes / 20, 200_000),
})

/** A limit for sandboxes of a disk for which no setting gives one. */
export const defaultDiskLimit = (total: DiskSize): DiskSize => {
  const bytes = Math.min(total.bytes / 2, Math.max(total.bytes / 10, 4 * GIB))
  const inodes = Math.min(total.inodes / 2, Math.max(total.inodes / 10, 500_000))
  return {
    bytes: Math.floor(bytes),
    inodes: total.inodes === 0 ? 2_000_000 : Math.floor(Math.min(inodes, 2_000_000)),
  }
}

/** A level ends a little above where it begins, so that it does not come and go with every file. */
export const roomLevel = (before: RoomLevel, room: DiskRoom): RoomLevel => {
  const reserve = reserveOf(room)
  const isBelow = (part: number) =>
    room.free.bytes < reserve.bytes * part || room.free.inodes < reserve.inodes * part
  if (isBelow(before === "none" ? 0.75 : 0.5)) return "none"
  return isBelow(before === "enough" ? 1 : 1.25) ? "low" : "enough"
}

/** Above this line, and a little more, what runs is stopped to be measured. */
const lineOf = ({ level, ceiling, lowUse }: DiskState, { limit }: DiskPolicy): DiskSize => {
  const own = level === "full" && ceiling ? ceiling : limit
  if (!lowUse) return own
  const low = add(lowUse, GROWS)
  return map((name) => Math.min(own[name], low[name]))
}

const mayBeAbove = (state: DiskState, policy: DiskPolicy): boolean => {
  const most = add(state.use ?? noSize, state.grown)
  const line = lineOf(state, policy)
  const slack = state.lowUse ? noSize : partOf(policy.limit, SLACK)
  return reaches(most, add(line, slack))
}

/** With much room left there is little to find: a quarter of what is left must have been written, by whomever. */
const isDue = (state: DiskState, { limit }: DiskPolicy, at: number): boolean => {
  const { use, level, grown } = state
  if (at < state.nextAt) return false
  if (!use) return true
  if (!state.hasChanged) return false
  if (level !== "ok" || at >= state.latestAt) return true
  const left = map((name) => Math.max(0, limit[name] * NEAR - use[name]) / 4)
  return reaches(grown, left)
}

const look = (
  before: DiskState,
  event: DiskEvent & { type: "look" },
  policy: DiskPolicy,
): readonly [DiskState, readonly DiskEffect[]] => {
  const { lowUse: known, ...rest } = before
  const lowUse = event.room === "enough" ? undefined : (known ?? before.use)
  const state: DiskState = {
    ...rest,
    ...(lowUse && { lowUse }),
    grown: add(before.grown, event.grown),
    hasChanged: before.hasChanged || event.hasChanged,
  }
  if (state.isMeasuring) return [state, []]
  const isSuspect = mayBeAbove(state, policy)
  if (!isSuspect && !isDue(state, policy, event.at)) return [state, []]
  return [
    { ...state, isMeasuring: true, grown: noSize, grownBefore: state.grown, hasChanged: false },
    [{ do: "measure", holds: isSuspect && !state.hasFailed }],
  ]
}

const levelAfter = ({ level }: DiskState, use: DiskSize, limit: DiskSize): Fullness => {
  if (reaches(use, limit)) return "full"
  if (level === "full" && reaches(use, times(limit, NOT_FULL))) return "full"
  return reaches(use, times(limit, level === "ok" ? NEAR : NOT_NEAR)) ? "near" : "ok"
}

const afterLevel = (
  before: DiskState,
  level: Fullness,
  use: DiskSize,
): { readonly news?: DiskNews; readonly action: DiskAction } => {
  if (before.level === "full") {
    if (level !== "full") return { news: "freed", action: "continue" }
    const wentOn = before.ceiling !== undefined && reaches(use, before.ceiling)
    return wentOn ? { news: "went-on", action: "end-agent" } : { action: "continue" }
  }
  if (level === "full") return { news: "full", action: "end-programs" }
  const isNews = level === "near" && before.level === "ok"
  return { ...(isNews && { news: "near" as const }), action: "continue" }
}

const measured = (
  before: DiskState,
  { at, use, tookMs, room }: DiskEvent & { type: "measured" },
  { limit }: DiskPolicy,
): readonly [DiskState, readonly DiskEffect[]] => {
  const level = levelAfter(before, use, limit)
  const { news, action } = afterLevel(before, level, use)
  const grows = before.lowUse !== undefined && reaches(use, add(before.lowUse, GROWS))
  const isStopped = action !== "continue"
  const { ceiling: former, lowUse: known, ...rest } = before
  const ceiling =
    level === "full" && (isStopped || !former) ? add(use, partOf(limit, GRACE)) : former
  const lowUse = room === "enough" ? undefined : (known ?? use)
  const often = level === "ok" ? PAUSE_MS : OFTEN_MS
  const state: DiskState = {
    ...rest,
    level,
    use,
    ...(level === "full" && ceiling && { ceiling }),
    ...(lowUse && { lowUse }),
    isMeasuring: false,
    hasFailed: false,
    grownBefore: noSize,
    nextAt: at + Math.min(LATEST_MS, Math.max(often, tookMs * SHARE)),
    latestAt: at + LATEST_MS,
  }
  return [
    state,
    [
      ...(news ? [{ do: "tell", news } as const] : []),
      ...(isStopped ? [{ do: "act", action } as const] : []),
      // The keeper tells why, when it may not let it go on.
      ...(grows && !isStopped ? [{ do: "act", action: "pause" } as const] : []),
    ],
  ]
}

export const stepDisk = (
  state: DiskState,
  event: DiskEvent,
  policy: DiskPolicy,
): readonly [DiskState, readonly DiskEffect[]] => {
  switch (event.type) {
    case "look":
      return look(state, event, policy)
    case "measured":
      return measured(state, event, policy)
    case "not-measured":
      return [
        {
          ...state,
          isMeasuring: false,
          hasFailed: true,
          hasChanged: true,
          grown: add(state.grown, state.grownBefore),
          grownBefore: noSize,
          nextAt: event.at + PAUSE_MS,
        },
        [],
      ]
  }
}
