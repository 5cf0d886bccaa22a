/** The warm pool: sandboxes that were started ahead. Decides what is started and ended, and which one may be claimed. Pure. */
import type { EnvironmentSources } from "./environment.ts"
import type { Life } from "./life.ts"

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
  return {
    add: Math.max(0, Math.min(missing, STARTS_AT_ONCE - starting.length)),
    start: starting.filter(({ life }) => life.wanted === "asleep").map(({ id }) => id),
    end: alive.filter((entry) => !kept.includes(entry)).map(({ id }) => id),
    forget: ended.map(({ id }) => id),
  }
}

type Sources = Pick<EnvironmentSources, "providerKeys" | "credentials" | "github">

const textOf = (sources: Sources): string =>
  JSON.stringify(
    Object.entries({ ...sources.providerKeys, ...sources.credentials, ...sources.github }).toSorted(
      ([a], [b]) => (a < b ? -1 : 1),
    ),
  )

/** Equal keys: sandboxes that were started with the same program and the same variables. */
export const poolKeyOf = (
  runtimeKey: string,
  sources: Sources,
  digest: (text: string) => string,
): string => digest(`${runtimeKey}\n${textOf(sources)}`)
