/** The warm pool: sandboxes that were started ahead. Decides what is started and ended, and which one may be claimed. Pure. */
import { doubledMs } from "../../lib/backoff.ts"
import { isGivenUp, isTouched, type Life } from "./life.ts"
import { divideVariables, type OwnSources } from "./link-variables.ts"

/** The tenant of a sandbox in the pool. It is not an owner, so it has none of an owner's credentials. */
export const POOL_TENANT = "pool"

export interface PoolEntry {
  readonly id: string
  readonly poolKey?: string | undefined
  readonly life: Life
  readonly createdAt: number
}

export interface PoolAims {
  /** What new sandboxes are started with. */
  readonly key: string
  readonly size: number
  readonly at: number
  /** Until then no new entry is started. */
  readonly pausedUntil?: number | undefined
}

export interface PoolPlan {
  /** How many new entries are started. */
  readonly add: number
  /** Entries that are recorded and not started yet. */
  readonly start: readonly string[]
  /** Entries of an earlier version, failed ones, and those above the size. */
  readonly end: readonly string[]
  /** Entries whose sandbox has ended: their records are not needed. */
  readonly forget: readonly string[]
}

/** A provider that ends sandboxes after a day gets new ones before a session would have to move. */
const BEFORE_END_MS = 60 * 60_000
/** A provider in trouble is not asked for the whole pool at once. */
const STARTS_AT_ONCE = 2
/** An entry whose start takes longer does not hold back others: its place is given to a new one. */
const SLOW_MS = 15_000
/** How often the size of the pool the entries may be, slow ones included. */
const MOST_TIMES = 2
/** How long a sandbox that no session uses yet may take from its create to the connection of its runner. */
export const POOL_BOOT_MS = 60_000

/** While sandboxes of the pool fail, no new ones are started. */
export interface PoolPause {
  /** How often in a row entries have failed. */
  readonly times: number
  readonly since: number
  readonly until: number
}

const PAUSE_MS = { min: 60_000, max: 15 * 60_000 }

/** `worked`: when the newest sandbox of any session was made that exists now. */
export const pauseAfter = (
  pause: PoolPause | undefined,
  entries: readonly PoolEntry[],
  worked: number,
  { key, at }: Pick<PoolAims, "key" | "at">,
): PoolPause | undefined => {
  const now = pause && worked > pause.since ? undefined : pause
  const hasFailed = entries.some(
    ({ poolKey, life }) => poolKey === key && isGivenUp(life) && life.wanted !== "ended",
  )
  // Entries that were started together fail together: that is one failure.
  if (!hasFailed || (now && at < now.until)) return now
  const times = (now?.times ?? 0) + 1
  const ms = doubledMs(times - 1, PAUSE_MS)
  return { times, since: at, until: at + ms }
}

/** Whether a session can have the sandbox now. */
export const isReady = (life: Life): boolean =>
  life.phase === "running" &&
  life.wanted === "running" &&
  !life.pending &&
  !life.twin &&
  !life.unsure &&
  !life.replace &&
  life.runner !== "busy"

const isUseful = ({ poolKey, life }: PoolEntry, { key, at }: PoolAims): boolean =>
  poolKey === key &&
  !isGivenUp(life) &&
  (life.expiresAt === undefined || at < life.expiresAt - BEFORE_END_MS)

/**
 * When the present attempt to start the entry began. The first attempt begins with the entry and includes calls that were lost
 * with their replicas. After a failure the next attempt begins when it is made, so a provider that refuses is not asked more often.
 */
const startedAt = ({ createdAt, life }: PoolEntry): number =>
  !isTouched(life) && life.lastError === undefined
    ? createdAt
    : Math.max(createdAt, life.unlinkedAt ?? 0, life.pending?.since ?? 0, life.retryAt ?? 0)

/** It has been started, and is not ready after the usual time. */
export const isSlow = (entry: PoolEntry, at: number): boolean =>
  !isReady(entry.life) && entry.life.wanted === "running" && at - startedAt(entry) >= SLOW_MS

/** `entries`: all sandboxes of the pool, of every version. */
export const planPool = (entries: readonly PoolEntry[], aims: PoolAims): PoolPlan => {
  const { size, at } = aims
  const ended = entries.filter(({ life }) => life.phase === "ended")
  const alive = entries.filter(({ life }) => life.wanted !== "ended")
  // The oldest first.
  const useful = alive
    .filter((entry) => isUseful(entry, aims))
    .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
  const ready = useful.filter(({ life }) => isReady(life)).slice(0, size)
  const places = size - ready.length
  const unready = useful.filter(({ life }) => !isReady(life))
  const starting = unready.filter((entry) => !isSlow(entry, at)).slice(0, places)
  // A slow one may still become ready before the one that was started in its place. It stays while the pool is not full.
  const most = places === 0 ? 0 : MOST_TIMES * size - ready.length - starting.length
  const slow = unready.filter((entry) => isSlow(entry, at)).slice(0, most)
  const kept = [...ready, ...starting, ...slow]
  const missing = Math.min(places - starting.length, MOST_TIMES * size - kept.length)
  const isPaused = aims.pausedUntil !== undefined && at < aims.pausedUntil
  return {
    add: isPaused ? 0 : Math.max(0, Math.min(missing, STARTS_AT_ONCE - starting.length)),
    start: starting.filter(({ life }) => life.wanted === "asleep").map(({ id }) => id),
    end: alive.filter((entry) => !kept.includes(entry)).map(({ id }) => id),
    forget: ended.map(({ id }) => id),
  }
}

const textOf = (sources: OwnSources): string =>
  JSON.stringify(
    Object.entries(divideVariables(sources).fixed).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  )

/** Equal keys: sandboxes that were started with the same program and the same variables, apart from what a frame brings. */
export const poolKeyOf = (
  runtimeKey: string,
  sources: OwnSources,
  digest: (text: string) => string,
): string => digest(`${runtimeKey}\n${textOf(sources)}`)

export type Fit =
  /** The owner needs a sandbox that is started for it. */
  | "none"
  | "any"
  /** Only a sandbox whose runner takes git credentials over the link. */
  | "takes-credentials"

/** Which sandboxes of the pool an owner can have. `pool`: what they were started with. */
export const fitOf = (pool: OwnSources, owner: OwnSources): Fit => {
  // A frame replaces single values and cannot remove one that the sandbox was started with.
  if (Object.keys(divideVariables(pool).git).length > 0) return "none"
  if (textOf(pool) !== textOf(owner)) return "none"
  return Object.keys(divideVariables(owner).git).length > 0 ? "takes-credentials" : "any"
}
