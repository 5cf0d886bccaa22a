/** Failures of the hub's server: a person reads one sentence in the response and one line in the log, never a stack. */
import type { Clock } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import { isStorageFull, STORAGE_FULL } from "../../../lib/storage-full.ts"
import { errorResponse, storageFullResponse } from "../../http-responses.ts"

export interface Failures {
  /** For a request that failed. */
  readonly response: (error: unknown) => Response
  /** Runs the work of a runner's connection. If it fails, the connection is closed: the runner comes back and sends again. */
  readonly contain: (
    socket: { readonly close: (code: number, reason: string) => void },
    work: () => void,
  ) => void
}

/** A full disk fails every request: the log says it at most this often. */
const PAUSE_MS = 30_000

export const createFailures = (log: Log, clock: Clock): Failures => {
  let reportedAt = -Infinity
  const report = (error: unknown): void => {
    if (!isStorageFull(error)) return log.error("hub.failed", { error: describeError(error) })
    if (clock.now() - reportedAt < PAUSE_MS) return
    reportedAt = clock.now()
    log.error("hub.storage-full", { error: STORAGE_FULL })
  }
  return {
    response: (error) => {
      report(error)
      return isStorageFull(error)
        ? storageFullResponse()
        : errorResponse(500, "the hub failed to handle the request: its log has the reason")
    },
    contain: (socket, work) => {
      try {
        work()
      } catch (error) {
        report(error)
        socket.close(1011, "the hub could not store the frame")
      }
    },
  }
}
