/** How long the turn machine waits before it looks for itself. */

/** No assistant message this long after the prompt was posted: look whether it was taken at all. */
export const LOOK_MS = 3000
/** OpenCode says idle while a message is open (it does, on errors and aborts): look again after this. */
export const RECHECK_MS = 1500
/** A session that does not stop in this time, however often it is asked to, is given up. */
export const STOPPING_MS = 60_000
