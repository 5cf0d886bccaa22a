/** Sessions that the hub itself starts on its machine, as the HTTP API sees them. */
import type { Owner } from "./access/ownership.ts"

/** `same`: in the directory of the first session. `worktree`: in a git worktree of its own. */
export const workspaces = ["same", "worktree"] as const

export interface LocalWish {
  readonly workspace: (typeof workspaces)[number]
  readonly model?: string | undefined
}

export interface PreparedSession {
  readonly ok: true
  /** Removes what was prepared, when the session is not created after all. */
  readonly undo: () => Promise<void>
  /** Starts the runner. The session exists. */
  readonly start: () => Promise<void>
}

export interface LocalSessions {
  /** Runners on this machine have the operator's files and accounts. */
  readonly isFor: (owner: Owner) => boolean
  /** Makes the directory of a new session. Nothing has changed when it is refused. */
  readonly prepare: (
    session: string,
    wish: LocalWish,
  ) => Promise<
    PreparedSession | { readonly ok: false; readonly status: 409 | 429; readonly problem: string }
  >
}
