/** How the `up` that holds a place is named in messages. */
import type { PlaceOwner } from "./place.ts"

export const describeOwner = (owner: PlaceOwner | undefined): string =>
  owner === undefined
    ? "pid unknown"
    : `pid ${owner.pid}, since ${new Date(owner.since).toLocaleString("sv-SE")}`
