/** Calls of chat services in progress: the stop of the host waits for them, because a call that was cut off is not repeated. */
import type { Clock } from "../../../lib/clock.ts"
import { SendError } from "../../session/chat-services.ts"

export interface ChatCalls {
  readonly run: <Result>(call: () => Promise<Result>) => Promise<Result>
  /** Refuses new calls, and resolves when the running ones are recorded, at the latest after `STOP_MS`. */
  readonly drain: () => Promise<void>
}

/** Less than the time that a supervisor leaves for a stop. */
const STOP_MS = 3000

export const createChatCalls = (clock: Clock, isStopped: () => boolean): ChatCalls => {
  const running = new Set<Promise<unknown>>()
  let isDraining = false
  /** Never resolves after the stop: the database is closed, so the result cannot be recorded. */
  const untilOpen = (): Promise<void> => (isStopped() ? new Promise(() => {}) : Promise.resolve())
  const waitUntil = (ms: number): Promise<void> =>
    new Promise((resolve) => void clock.after(ms, resolve))
  return {
    run: async (call) => {
      if (isDraining) throw new SendError("the hub is stopping", { retryable: true })
      const made = call()
      running.add(made)
      try {
        return await made
      } finally {
        running.delete(made)
        await untilOpen()
      }
    },
    drain: async () => {
      isDraining = true
      if (running.size === 0) return
      await Promise.race([Promise.allSettled(running), waitUntil(STOP_MS)])
      // The results are recorded in the microtasks after the calls.
      await new Promise((resolve) => void setImmediate(resolve))
    },
  }
}
