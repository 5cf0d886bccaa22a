/**
 * How an object paces the messages of its WebSockets. The runtime gives the next message without waiting for the handler of the one
 * before, and many objects share a thread: one that handled every message at once would hold up all the others.
 */

/** About a millisecond of work. */
const SLICE_MESSAGES = 16
/** Each is several commits and calls between objects. */
const SLICE_STARTS = 2
const MOST_PAUSE_MS = 100

/** Runs after what waits in the thread, and leaves others as much time as that took. A timer keeps the object from sleeping. */
const afterOthers = (run: () => void): void => {
  const from = Date.now()
  setTimeout(() => setTimeout(run, Math.min(Date.now() - from, MOST_PAUSE_MS)), 0)
}

export const pace = {
  // The clock of the runtime stands still while a program runs.
  now: () => 0,
  sliceMessages: SLICE_MESSAGES,
  sliceStarts: SLICE_STARTS,
  soon: afterOthers,
} as const

/** Nothing stops the runtime from reading. A runner that was away for long sends this many messages at once. */
export const MOST_WAITING_OF_RUNNER = 200_000
