/**
 * What a transaction sends out: to another session, a chat service, the shared store, the fleet, object storage. A delivery is a row,
 * stored in the transaction that causes it and deleted when its receiver has it. The rows of a lane are sent one after the other, in
 * their order; lanes do not wait for each other. A failed attempt is repeated with backoff under the same id, which is the receiver's
 * idempotency key. After the last attempt the row ends, and its kind says so where people see it.
 */
import { z } from "zod"
import { backoffMs, type BackoffRange } from "../../lib/backoff.ts"
import { parseJson } from "../../lib/json.ts"
import { earliest } from "./deadlines.ts"
import type { DeliveryRow, DeliveryRows } from "./delivery-rows.ts"

export interface Delivery<Payload> {
  readonly id: string
  readonly payload: Payload
  /** Attempts that have failed. */
  readonly attempts: number
  /** An earlier attempt was begun, and it is not known whether the receiver has it. */
  readonly mayHaveArrived: boolean
}

export interface RetryLimits {
  readonly backoff: BackoffRange
  readonly maxAttempts: number
  /** A receiver that asks for a longer pause is not tried again. */
  readonly maxWaitMs?: number
}

export interface DeliveryKind<Payload> extends RetryLimits {
  readonly payload: z.ZodType<Payload>
  /** What failed may work again when the host starts: it is tried again at once then. */
  readonly triesAtStart?: boolean
  /**
   * Rejects if the receiver has not got it; `afterFailure` says what the error may tell. For a receiver without idempotency keys call
   * `begin` before the call: the row remembers it, also if the process ends during the call.
   */
  readonly send: (delivery: Delivery<Payload>, begin: () => void) => void | Promise<void>
  /** Inside the transaction that deletes the row. */
  readonly delivered?: (delivery: Delivery<Payload>) => void
  /** After that transaction. It may not run: the process can end in between. */
  readonly cleanUp?: (delivery: Delivery<Payload>) => void
  /** It will be tried again. Inside the transaction that says when. */
  readonly failed?: (delivery: Delivery<Payload>) => void
  /** It will not be tried again. Inside the transaction that deletes the row. */
  readonly givenUp?: (delivery: Delivery<Payload>, reason: string) => void
}

/** A total map; undefined: this host cannot send the kind, and its rows wait for a start that can. */
export type DeliveryKinds<Payloads> = {
  readonly [Kind in keyof Payloads]: DeliveryKind<Payloads[Kind]> | undefined
}

export interface DeliveriesOptions<Payloads> {
  readonly rows: DeliveryRows<Payloads>
  readonly kinds: DeliveryKinds<Payloads>
  readonly now: () => number
  readonly random: () => number
  /** Runs a change in a transaction, and sets the alarm after it. */
  readonly commit: (work: () => void) => void
  /** A row of this lane cannot be read and was deleted. Inside the transaction of that. */
  readonly unreadable: (lane: string, id: string) => void
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
}

export interface Deliveries {
  /** Sends what is due. Call after each commit. Resolves when nothing more can be sent at the moment; never rejects. */
  readonly send: () => Promise<void>
  /** The alarm has fired: rows may have become due. */
  readonly wake: () => void
  /** Call when the host starts, before the first `send`. */
  readonly start: () => void
  /** When the alarm must fire next, in ms since 1970. */
  readonly nextAlarm: () => number | undefined
}

/** When a row that is due counts as not sent: the process that had to send it has ended. */
const STALE_MS = 5000

interface FailedAttempt {
  /** With the failed one. */
  readonly attempts: number
  readonly error: unknown
  readonly now: number
  /** From 0 to 1. */
  readonly random: number
}

/**
 * The time of the next attempt, or undefined to give up. An error with `retryable: false` is final; one with `retryAfterMs` says how
 * long to wait at least; `mayHaveArrived` says that only the answer was lost.
 */
export const afterFailure = (
  { backoff, maxAttempts, maxWaitMs = Infinity }: RetryLimits,
  { attempts, error, now, random }: FailedAttempt,
): number | undefined => {
  const { retryable, retryAfterMs = 0 } = hintsOf(error)
  if (retryable === false || attempts >= maxAttempts || retryAfterMs > maxWaitMs) return undefined
  return now + Math.max(retryAfterMs, backoffMs(attempts - 1, backoff, random))
}

const hints = z.object({
  retryable: z.boolean().optional().catch(undefined),
  retryAfterMs: z.number().optional().catch(undefined),
  mayHaveArrived: z.boolean().optional().catch(undefined),
})
const hintsOf = (error: unknown): z.output<typeof hints> => hints.safeParse(error).data ?? {}

const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/** What an attempt leads to: `record` inside a transaction, `cleanUp` after it. */
interface Outcome {
  readonly record: () => void
  readonly cleanUp?: () => void
}

export const createDeliveries = <Payloads extends object>({
  rows,
  kinds,
  now,
  random,
  commit,
  unreadable,
  report,
}: DeliveriesOptions<Payloads>): Deliveries => {
  /** Lanes with an attempt in progress. */
  const busy = new Set<string>()
  const isKind = (name: string): name is keyof Payloads & string => Object.hasOwn(kinds, name)
  /** An unknown kind is served: it is given up as unreadable. */
  const isServed = ({ kind }: Pick<DeliveryRow, "kind">) =>
    !isKind(kind) || kinds[kind] !== undefined

  const fail = <Payload>(
    kind: DeliveryKind<Payload>,
    delivery: Delivery<Payload>,
    name: string,
    error: unknown,
  ): void => {
    const { id } = delivery
    const reason = reasonOf(error)
    const mayHaveArrived = hintsOf(error).mayHaveArrived === true
    const failed = { ...delivery, attempts: delivery.attempts + 1, mayHaveArrived }
    const { attempts } = failed
    const dueAt = afterFailure(kind, { attempts, error, now: now(), random: random() })
    const isLast = dueAt === undefined
    report(isLast ? "hub.delivery-given-up" : "hub.delivery-failed", {
      kind: name,
      attempts,
      error: reason,
    })
    if (isLast) {
      rows.remove(id)
      return kind.givenUp?.(failed, reason)
    }
    rows.postpone(id, { attempts, dueAt, mayHaveArrived })
    kind.failed?.(failed)
  }

  const attempt = async <Payload>(
    kind: DeliveryKind<Payload>,
    row: DeliveryRow,
    payload: Payload,
  ): Promise<Outcome> => {
    const { id, attempts, begun_at } = row
    const delivery = { id, payload, attempts, mayHaveArrived: begun_at !== null }
    try {
      await kind.send(delivery, () => rows.begin(id))
    } catch (error) {
      return { record: () => fail(kind, delivery, row.kind, error) }
    }
    return {
      record: () => {
        rows.remove(id)
        kind.delivered?.(delivery)
      },
      cleanUp: () => kind.cleanUp?.(delivery),
    }
  }

  const tryOne = async (row: DeliveryRow): Promise<Outcome> => {
    const kind = isKind(row.kind) ? kinds[row.kind] : undefined
    const read = kind?.payload.safeParse(parseJson(row.payload))
    if (kind && read?.success) return attempt(kind, row, read.data)
    return {
      record: () => {
        report("hub.delivery-given-up", { kind: row.kind, error: "the row cannot be read" })
        rows.remove(row.id)
        unreadable(row.lane, row.id)
      },
    }
  }

  const sendLane = async (lane: string): Promise<void> => {
    busy.add(lane)
    try {
      // The caller may be inside a transaction of the session that receives the delivery: it finishes first.
      await Promise.resolve()
      for (;;) {
        const row = rows.headOf(lane)
        if (!row || row.due_at > now() || !isServed(row)) return
        const { record, cleanUp } = await tryOne(row)
        commit(record)
        cleanUp?.()
      }
    } finally {
      busy.delete(lane)
    }
  }

  /** The host was stopped meanwhile, or its disk is full. The rows stay. */
  const stopped = (error: unknown) => report("hub.deliveries-stopped", { error: reasonOf(error) })

  return {
    send: async () => {
      try {
        if (!rows.takeWake()) return
        const due = rows
          .heads()
          .filter((head) => head.due_at <= now() && isServed(head) && !busy.has(head.lane))
        await Promise.all(due.map(({ lane }) => sendLane(lane).catch(stopped)))
      } catch (error) {
        stopped(error)
      }
    },
    wake: rows.wake,
    start: () => {
      for (const name of Object.keys(kinds))
        if (isKind(name) && kinds[name]?.triesAtStart === true) rows.hasten(name)
      rows.wake()
    },
    nextAlarm: () => {
      const stale = now() + STALE_MS
      const served = rows.heads().filter(isServed)
      return earliest(served.map(({ due_at }) => (due_at > now() ? due_at : stale)))
    },
  }
}
