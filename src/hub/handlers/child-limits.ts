/** How many child sessions a session may have at work, and how deep a chain of them may be. Pure, the same for every host. */
import type { KnownChild } from "../session/child-reports.ts"

export interface ChildLimits {
  /** Of one session, at the same time. The owner's limit of sessions bounds the sum. */
  readonly maxChildren?: number | undefined
  /** Levels below the first session. */
  readonly maxDepth?: number | undefined
}

/** They stop an agent that spawns children without end. */
const MAX_CHILDREN = 20
const MAX_DEPTH = 3

/** Why a session with these children, so deep below the first one, may not start another. A finished child does not count. */
export const problemOfNewChild = (
  children: readonly KnownChild[],
  depth: number,
  { maxChildren = MAX_CHILDREN, maxDepth = MAX_DEPTH }: ChildLimits,
): string | undefined => {
  if (children.filter(({ isWorking }) => isWorking).length >= maxChildren)
    return `${maxChildren} child sessions are running already: wait until one has finished, or end one`
  if (depth >= maxDepth)
    return `this session is ${maxDepth} levels below the first one and cannot start child sessions: do the work here`
  return undefined
}
