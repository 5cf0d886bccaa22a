/** Times around a snapshot of a sandbox that the fleet and the runner in the sandbox must agree on. */

/** The longest call to a provider that makes a snapshot. */
export const SNAPSHOT_CALL_MS = 10 * 60_000

/**
 * The runner sleeps so long after the hook before a snapshot, with its secrets in memory only. Then it assumes that no
 * snapshot is taken, and writes them back. A call that makes a snapshot must end before that.
 */
export const SNAPSHOT_SLEEP_MS = 15 * 60_000

/** So long after the answer of the hook a snapshot may begin. The rest is for the way of that answer. */
export const SNAPSHOT_BEGIN_MS = SNAPSHOT_SLEEP_MS - SNAPSHOT_CALL_MS - 2 * 60_000
