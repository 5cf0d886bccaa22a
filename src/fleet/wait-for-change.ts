/** Waits until a session is in a wanted state: it is read again when a store tells of a change, and after a while. */
import type { Clock } from "../lib/clock.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"

export interface Waiters {
  /** Resolves with the session when `holds` is true of it, or with its last state at the limit. */
  readonly waitFor: (
    session: string,
    holds: (session: StoredSession) => boolean,
    limit: AbortSignal,
  ) => Promise<StoredSession | undefined>
  /** Those who still wait read after a while only. */
  readonly stop: () => void
}

export const createWaiters = (
  store: Pick<FleetStore, "find" | "watch" | "pollMs">,
  clock: Pick<Clock, "after">,
): Waiters => {
  const waiting = new Map<string, Set<() => void>>()
  const stop = store.watch((id) => {
    const woken = id === undefined ? [...waiting.values()] : [waiting.get(id) ?? []]
    for (const ofSession of woken) for (const changed of ofSession) changed()
  })
  const onChange = (id: string, changed: () => void): (() => void) => {
    const ofSession = waiting.get(id) ?? new Set()
    waiting.set(id, ofSession.add(changed))
    return () => {
      ofSession.delete(changed)
      if (ofSession.size === 0) waiting.delete(id)
    }
  }

  return {
    stop,
    waitFor: async (id, holds, limit) => {
      // A change while the session is read counts, too.
      let isChanged = false
      let resume = () => {}
      const changed = () => {
        isChanged = true
        resume()
      }
      const ignore = onChange(id, changed)
      limit.addEventListener("abort", changed)
      try {
        for (;;) {
          isChanged = false
          const session = await store.find(id)
          if (!session || holds(session) || limit.aborted) return session
          if (isChanged) continue
          await new Promise<void>((resolve) => {
            const cancel = clock.after(store.pollMs(), changed)
            resume = () => {
              cancel()
              resolve()
            }
          })
        }
      } finally {
        ignore()
        limit.removeEventListener("abort", changed)
      }
    },
  }
}
