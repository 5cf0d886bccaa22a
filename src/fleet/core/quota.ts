/** How many sandboxes an owner may have at the same time. Pure. */
import type { Life } from "./life.ts"

interface Counted {
  readonly id: string
  readonly life: Life
}

/** A sandbox that costs something: it runs, or is about to. A paused or saved one does not count. */
const isCounted = ({ life }: Counted): boolean =>
  life.pending?.call.do === "create" ||
  life.pending?.call.do === "resume" ||
  (life.ref !== undefined && life.phase !== "paused")

const since = ({ life }: Counted): number =>
  life.pending?.call.do === "create" ? life.pending.since : 0

/**
 * Whether the session may have its sandbox now. Sandboxes that exist come first, then those that are being created, in
 * their order: two sessions that ask at the same moment are not both refused.
 */
export const isWithinQuota = (
  session: string,
  ofOwner: readonly Counted[],
  quota: number,
): boolean => {
  const ordered = ofOwner
    .filter(isCounted)
    .toSorted((a, b) => since(a) - since(b) || (a.id < b.id ? -1 : 1))
  const place = ordered.findIndex(({ id }) => id === session)
  return (place === -1 ? ordered.length : place) < quota
}
