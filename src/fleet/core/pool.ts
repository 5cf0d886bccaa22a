/** The warm pool: sandboxes that were started ahead. Decides what is started and ended, and which one may be claimed. Pure. */
import type { Life } from "./life.ts"
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
    ({ poolKey, life }) => poolKey === key && life.failed && life.wanted !== "ended",
  )
  // Entries that were started together fail together: that is one failure.
  if (!hasFailed || (now && at < now.until)) return now
  const times = (now?.times ?? 0) + 1
  const ms = Math.min(PAUSE_MS.max, PAUSE_MS.min * 2 ** Math.min(times - 1, 10))
  return { times, since: at, until: at + ms }
}

/** Whether a session can have the sandbox now. */
export const isReady = (life: Life): boolean =>
  life.phase === "running" &&
  life.wanted === "running" &&
  life.ref !== undefined &&
  !life.pending &&
  !life.doubt &&
  !life.unsure &&
  !life.replace &&
  !life.busy

const isUseful = ({ poolKey, life }: PoolEntry, { key, at }: PoolAims): boolean =>
  poolKey === key &&
  !life.failed &&
  (life.expiresAt === undefined || at < life.expiresAt - BEFORE_END_MS)

/** `entries`: all sandboxes of the pool, of every version. */
export const planPool = (entries: readonly PoolEntry[], aims: PoolAims): PoolPlan => {
  const ended = entries.filter(({ life }) => life.phase === "ended")
  const alive = entries.filter(({ life }) => life.wanted !== "ended")
  // The ones that can be claimed first, then the oldest.
  const useful = alive
    .filter((entry) => isUseful(entry, aims))
    .toSorted(
      (a, b) =>
        Number(isReady(b.life)) - Number(isReady(a.life)) ||
        a.createdAt - b.createdAt ||
        (a.id < b.id ? -1 : 1),
    )
  const kept = useful.slice(0, aims.size)
  const starting = kept.filter(({ life }) => !isReady(life))
  const missing = Math.max(0, aims.size - kept.length)
  const isPaused = aims.pausedUntil !== undefined && aims.at < aims.pausedUntil
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
