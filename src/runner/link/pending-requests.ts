/** Questions to the session agent that wait for their answer: each gets exactly one, or an error that says why not. */
import type { Clock } from "../../lib/clock.ts"
import type {
  OutboundFrame,
  RequestFields,
  RequestResult,
  RequestType,
  ResultFrame,
} from "../../wire/frames/index.ts"
import { requestDeadlineMs, requestFrame } from "../../wire/frames/index.ts"

/** Why there is no answer: the session agent said no, said nothing, could not be reached, or we are closing. */
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
  /** False when nobody waits for it: it comes late, twice, or unasked. */
  readonly wakeWaiters: (frame: ResultFrame) => boolean
  /**
   * Asks again what has no answer yet, under the same id. Only for a session agent that answers a repeated
   * question without doing it twice; `isUnderWay` says of an id that its question is still to be delivered.
   */
  readonly resend: (isUnderWay: (requestId: string) => boolean) => void
  readonly failAll: (why: string) => void
  readonly waiting: () => number
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
  const waiting = new Map<string, PendingRequest>()

  const take = (requestId: string): PendingRequest | undefined => {
    const found = waiting.get(requestId)
    found?.cancel()
    waiting.delete(requestId)
    return found
  }

  const expire = (type: RequestType, requestId: string, ms: number) => {
    const online = isOnline()
    const words = online
      ? `the session agent did not answer ${type} within ${ms / 1000} s; it may still be carried out`
      : `the session agent could not be reached within ${ms / 1000} s for ${type}`
    const failure = online ? "timeout" : "offline"
    take(requestId)?.reject(new RequestError(failure, requestId, words))
  }

  return {
    request: (type, fields) => {
      const requestId = newId()
      const frame = requestFrame(type, requestId, fields)
      const ms = requestDeadlineMs(type)
      return new Promise((resolve, reject) => {
        waiting.set(requestId, {
          frame,
          // The frame was parsed as the result of this very type: the id is ours and names it.
          resolve: (result) => resolve(result as never),
          reject,
          cancel: clock.after(ms, () => expire(type, requestId, ms)),
        })
        send(frame)
      })
    },
    wakeWaiters: (frame) => {
      const asked = waiting.get(frame.requestId)
      if (!asked || `${asked.frame.type}-result` !== frame.type) return false
      take(frame.requestId)
      if (frame.error === undefined) asked.resolve(frame)
      else asked.reject(new RequestError("refused", frame.requestId, frame.error))
      return true
    },
    resend: (isUnderWay) => {
      for (const [requestId, { frame }] of waiting) if (!isUnderWay(requestId)) send(frame)
    },
    failAll: (why) => {
      for (const requestId of waiting.keys()) {
        take(requestId)?.reject(new RequestError("closing", requestId, why))
      }
    },
    waiting: () => waiting.size,
  }
}
