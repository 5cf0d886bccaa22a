/** How long the turn machine waits before it reads the session on its own. */

/** Without an assistant message this long after the post, check whether OpenCode accepted the prompt. */
export const POST_CHECK_MS = 3000
/** On errors and aborts OpenCode becomes idle while a message is still open: read the session again after this. */
export const RECHECK_MS = 1500
/** OpenCode sends its idle event before its status is idle: it is read again, at growing intervals up to this. */
export const MAX_RECHECK_MS = 12_000
/** A session that has not stopped this long after the first abort ends the turn with an error. */
export const STOPPING_MS = 60_000

/** A time in milliseconds, for people. */
export const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`
