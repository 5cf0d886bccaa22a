/** Which snapshots of a session are removed. Pure. */
import type { Life } from "./life.ts"

export interface StoredSnapshot {
  readonly id: string
  readonly session: string
  readonly createdAt: number
  /** The sandbox that was saved in it. Absent: of a base snapshot, and of one that an earlier version has made. */
  readonly ref?: string | undefined
}

export interface SnapshotState {
  /** The one that the next sandbox is made from. */
  readonly current: string | undefined
  /** Those that a create did not find. The answer may have been wrong: they stay while the session lives. */
  readonly missing: readonly string[]
  readonly hasEnded: boolean
  /** How long the provider keeps a snapshot. */
  readonly lifeMs: number | undefined
}

/** Those that a session that lives may still need. */
export const snapshotsOf = ({ snapshot, missingSnapshots = [] }: Life): readonly string[] =>
  snapshot ? [snapshot.id, ...missingSnapshots] : missingSnapshots

const DAY_MS = 86_400_000
const KEPT = 2
/** Before its end a snapshot is renewed: the session runs once and is saved again. */
const RENEW_MS = 5 * DAY_MS

/** `stored`: all snapshots of one session. The newest two stay for a day after a newer one has replaced them. */
export const snapshotsToRemove = (
  stored: readonly StoredSnapshot[],
  { current, missing, hasEnded, lifeMs }: SnapshotState,
  at: number,
): readonly string[] => {
  const newestFirst = stored.toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
  return newestFirst.flatMap(({ id, createdAt }, place) => {
    const isExpired = lifeMs !== undefined && at >= createdAt + lifeMs
    if ((id === current || missing.includes(id)) && !hasEnded && !isExpired) return []
    const replacedAt = place === 0 ? createdAt : (newestFirst[place - 1]?.createdAt ?? createdAt)
    const isOld = at >= replacedAt + DAY_MS
    return isExpired || isOld || place >= KEPT ? [id] : []
  })
}

/** Whether the current snapshot ends soon. */
export const mustRenew = (createdAt: number, lifeMs: number | undefined, at: number): boolean =>
  lifeMs !== undefined && at >= createdAt + lifeMs - RENEW_MS && at < createdAt + lifeMs
