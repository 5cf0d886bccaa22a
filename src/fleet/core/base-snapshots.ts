/** Base snapshots: the disk of a sandbox that has started once, for the first sandbox of every session. Pure. */
import type { StoredSnapshot } from "./snapshots.ts"

const PREFIX = "base:"
const DAY_MS = 86_400_000
/** A create that was decided before may still use it. */
const SUPERSEDED_MS = 60 * 60_000

/** Base snapshots are stored beside those of sessions, under this name in place of a session's id. */
export const baseName = (runtimeKey: string): string => `${PREFIX}${runtimeKey}`

export const isBaseName = (session: string): boolean => session.startsWith(PREFIX)
const isBase = ({ session }: StoredSnapshot): boolean => isBaseName(session)

const newestFirst = (a: StoredSnapshot, b: StoredSnapshot): number =>
  b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1)

/** The one that new sandboxes are made from. Undefined: they are made from the image. */
export const currentBase = (
  stored: readonly StoredSnapshot[],
  runtimeKey: string,
  lifeMs: number | undefined,
  at: number,
): string | undefined =>
  stored
    .filter(({ session }) => session === baseName(runtimeKey))
    .filter(({ createdAt }) => lifeMs === undefined || at < createdAt + lifeMs)
    .toSorted(newestFirst)[0]?.id

/**
 * Those of other versions after a day, because replicas of two versions may run while one replaces the other; those that
 * a newer one of the same version has replaced; and expired ones.
 */
export const basesToRemove = (
  stored: readonly StoredSnapshot[],
  runtimeKey: string,
  lifeMs: number | undefined,
  at: number,
): readonly string[] => {
  const bases = stored.filter(isBase)
  const [newest] = bases
    .filter(({ session }) => session === baseName(runtimeKey))
    .toSorted(newestFirst)
  return bases.flatMap(({ id, session, createdAt }) => {
    const isExpired = lifeMs !== undefined && at >= createdAt + lifeMs
    const isOther = session !== baseName(runtimeKey) && at >= createdAt + DAY_MS
    const isReplaced =
      session === baseName(runtimeKey) &&
      id !== newest?.id &&
      at >= (newest?.createdAt ?? at) + SUPERSEDED_MS
    return isExpired || isOther || isReplaced ? [id] : []
  })
}
