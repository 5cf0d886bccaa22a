/** Requests to the session agent without a result yet: each gets one result, or an error with the reason. */
import type { Clock } from "../../lib/clock.ts"
import type {
  OutboundFrame,
  RequestFields,
  RequestResult,
  RequestType,
  ResultFrame,
} from "../../wire/frames/index.ts"
import { requestDeadlineMs, requestFrame } from "../../wire/frames/index.ts"

/** The session agent returned an error, sent no result in time, was not connected, or the runner is shutting down. */
export type RequestFailure = "refused" | "timeout" | "offline" | "closing"

export class RequestError extends Error {
  override readonly name = "RequestError"
  readonly failure: RequestFailure
  readonly requestId: string
  constructor(failure: RequestFailure, requestId: string, message: string) {
    super(message)
    this.failure = failure
    this.requestId = requestId
  }
}

export interface PendingRequestsOptions {
  readonly send: (frame: OutboundFrame) => void
  readonly isOnline: () => boolean
  readonly clock: Clock
  readonly newId: () => string
}

export interface PendingRequests {
  readonly request: <Type extends RequestType>(
    type: Type,
    fields: RequestFields<Type>,
  ) => Promise<RequestResult<Type>>
  /** False when no request is pending under that id: the result is late, a duplicate or unknown. */
  readonly settle: (frame: ResultFrame) => boolean
  /**
   * Sends pending requests again under the same id, except those that `isQueued` finds in the outbox. Only for a
   * session agent that does not carry out the same request id twice.
   */
  readonly resend: (isQueued: (requestId: string) => boolean) => void
  readonly failAll: (why: string) => void
}

interface PendingRequest {
  readonly frame: OutboundFrame
  readonly resolve: (result: ResultFrame) => void
  readonly reject: (error: RequestError) => void
  readonly cancel: () => void
}

export const createPendingRequests = ({
  send,
  isOnline,
  clock,
  newId,
}: PendingRequestsOptions): PendingRequests => {
  const pending = new Map<string, PendingRequest>()

  const take = (requestId: string): PendingRequest | undefined => {
    const found = pending.get(requestId)
    found?.cancel()
    pending.delete(requestId)
    return found
  }

  const expire = (type: RequestType, requestId: string, ms: number) => {
    const online = isOnline()
    const message = online
      ? `the session agent sent no result for ${type} within ${ms / 1000} s; it may still carry it out`
      : `${type} failed: the session agent could not be reached within ${ms / 1000} s`
    const failure = online ? "timeout" : "offline"
    take(requestId)?.reject(new RequestError(failure, requestId, message))
  }

  return {
    request: (type, fields) => {
      const requestId = newId()
      const frame = requestFrame(type, requestId, fields)
      const ms = requestDeadlineMs(type)
      return new Promise((resolve, reject) => {
        pending.set(requestId, {
          frame,
          // The cast is safe: `settle` compares the type of the result with the type of the request.
          resolve: (result) => resolve(result as never),
          reject,
          cancel: clock.after(ms, () => expire(type, requestId, ms)),
        })
        send(frame)
      })
    },
    settle: (frame) => {
      const request = pending.get(frame.requestId)
      if (!request || `${request.frame.type}-result` !== frame.type) return false
      take(frame.requestId)
      if (frame.error === undefined) request.resolve(frame)
      else request.reject(new RequestError("refused", frame.requestId, frame.error))
      return true
    },
    resend: (isQueued) => {
      for (const [requestId, { frame }] of pending) if (!isQueued(requestId)) send(frame)
    },
    failAll: (why) => {
      for (const requestId of pending.keys()) {
        take(requestId)?.reject(new RequestError("closing", requestId, why))
      }
    },
  }
}
