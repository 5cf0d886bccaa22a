/**
 * Work that a transaction of the shared store requests: for a session, or for a service outside. It is stored in the same
 * transaction and deleted after delivery. A failed delivery is retried with backoff under the same id, which is the
 * receiver's idempotency key. After the last attempt the effect ends with a note in the conversation and a log line.
 */
import { backoffMs } from "../../lib/backoff.ts"
import type { Sql } from "../session/ports.ts"
import {
  type Effect,
  laneRow,
  nextEffectRow,
  parseEffect,
  type PendingEffect,
  pendingEffectRow,
  selectAll,
  selectOne,
} from "./rows.ts"

export interface Effects {
  /**
   * Call inside the transaction that causes the effect. Effects of one lane are delivered in order: a failed one holds back
   * the ones after it until it is delivered or given up. The default lane is the session.
   */
  readonly add: (id: string, session: string, effect: Effect, lane?: string) => void
  /** Delivers the effects that are due. Call after each commit, at the alarm and when the host starts. Never rejects. */
  readonly deliver: () => Promise<void>
  /** When `deliver` must be called next, in ms since 1970. */
  readonly nextAlarm: () => number | undefined
}

export type EffectKind = Effect["do"]

/** How each kind is delivered. A rejection is a failed attempt; see `afterFailure` for what its error may say. */
export type Deliveries = {
  readonly [Kind in EffectKind]: (
    session: string,
    id: string,
    effect: Extract<Effect, { readonly do: Kind }>,
  ) => void | Promise<void>
}

export interface EffectsOptions {
  readonly sql: Sql
  readonly now: () => number
  readonly deliveries: Deliveries
  /** An effect was delivered, failed or given up: the alarm may have to change. */
  readonly changed: () => void
  /** The effect was given up and its row is deleted. Runs in the transaction that deletes it. */
  readonly givenUp: (id: string, effect: Effect | undefined, reason: string) => void
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
}

/** About 40 minutes in all: longer than most outages of a service, short enough that a person still waits for the result. */
export const MAX_ATTEMPTS = 12
const BACKOFF = { min: 2000, max: 600_000 }
/** When a new effect counts as not delivered: the process that added it was killed before it delivered it. */
const STALE_MS = 5000

/**
 * The time of the next attempt, or `undefined` to give up. An error with `retryable: false` is final; one with
 * `retryAfterMs` says when to try again.
 */
export const afterFailure = (
  attempts: number,
  error: unknown,
  now: number,
  random: number,
): number | undefined => {
  const { retryable, retryAfterMs } = hintsOf(error)
  if (retryable === false || attempts >= MAX_ATTEMPTS) return undefined
  return now + Math.max(retryAfterMs ?? 0, backoffMs(attempts - 1, BACKOFF, random))
}

const hintsOf = (error: unknown): { retryable?: unknown; retryAfterMs?: number } => {
  if (typeof error !== "object" || error === null) return {}
  const retryable = "retryable" in error ? error.retryable : undefined
  const wait = "retryAfterMs" in error ? error.retryAfterMs : undefined
  return { retryable, ...(typeof wait === "number" && { retryAfterMs: wait }) }
}

const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/**
 * The lanes with pending effects, by one look into the index for each. This is read after every commit, and a lane may have
 * thousands of effects.
 */
const LANES = `WITH RECURSIVE lanes (lane) AS (
  SELECT min(lane) FROM effects
  UNION ALL SELECT (SELECT min(lane) FROM effects WHERE lane > lanes.lane) FROM lanes WHERE lane IS NOT NULL)`

export const createEffects = (options: EffectsOptions): Effects => {
  const { sql, now, deliveries, report } = options
  /** Lanes that are being delivered: the next call must not deliver their effects a second time. */
  const busy = new Set<string>()

  const add: Effects["add"] = (id, session, effect, lane = session) =>
    sql.run(
      "INSERT OR IGNORE INTO effects (id, session, effect, lane, due_at) VALUES (?, ?, ?, ?, ?)",
      id,
      session,
      JSON.stringify(effect),
      lane,
      now(),
    )

  const giveUp = (row: PendingEffect, effect: Effect | undefined, reason: string) => {
    const attempts = row.attempts + 1
    report("hub.effect-given-up", { effect: row.id, kind: effect?.do, attempts, error: reason })
    sql.transaction(() => {
      sql.run("DELETE FROM effects WHERE id = ?", row.id)
      options.givenUp(row.id, effect, reason)
      // A note that cannot be delivered ends with the log line alone.
      if (effect?.do === "note") return
      const what = effect === undefined ? "a stored effect" : whatIs[effect.do]
      const content = `${what} failed and is not tried again: ${reason}`
      add(`${row.id}/failed`, row.session, { do: "note", content })
    })
  }

  const attempt = async (row: PendingEffect): Promise<void> => {
    let effect: Effect | undefined
    try {
      effect = parseEffect(row.effect)
      await deliverWith(deliveries, row, effect)
      sql.run("DELETE FROM effects WHERE id = ?", row.id)
    } catch (error) {
      const attempts = row.attempts + 1
      // A row that cannot be read stays unreadable.
      const next = effect && afterFailure(attempts, error, now(), Math.random())
      const reason = reasonOf(error)
      if (next === undefined) return giveUp(row, effect, reason)
      report("hub.effect-failed", { effect: row.id, kind: effect?.do, attempts, error: reason })
      sql.run("UPDATE effects SET attempts = ?, due_at = ? WHERE id = ?", attempts, next, row.id)
    }
  }

  const deliverLane = async (lane: string): Promise<void> => {
    busy.add(lane)
    try {
      // The caller may be inside a transaction of the session that receives the effect. Let it finish first.
      await Promise.resolve()
      for (;;) {
        const row = selectOne(
          sql,
          pendingEffectRow,
          "SELECT * FROM effects WHERE lane = ? ORDER BY rowid LIMIT 1",
          lane,
        )
        if (!row || row.due_at > now()) break
        await attempt(row)
      }
    } catch (error) {
      report("hub.effects-failed", { error: reasonOf(error) })
    } finally {
      busy.delete(lane)
    }
  }

  return {
    add,
    deliver: async () => {
      const idle = selectAll(sql, laneRow, `${LANES} SELECT lane FROM lanes WHERE lane IS NOT NULL`)
        .map(({ lane }) => lane)
        .filter((lane) => !busy.has(lane))
      if (idle.length === 0) return
      await Promise.all(idle.map(deliverLane))
      try {
        options.changed()
      } catch (error) {
        report("hub.effects-failed", { error: reasonOf(error) })
      }
    },
    nextAlarm: () => {
      const rows = selectAll(
        sql,
        nextEffectRow,
        `${LANES} SELECT lane, due_at FROM effects WHERE rowid IN
           (SELECT (SELECT min(rowid) FROM effects WHERE effects.lane = lanes.lane) FROM lanes)`,
      )
      if (rows.length === 0) return undefined
      return Math.max(now() + STALE_MS, Math.min(...rows.map(({ due_at }) => due_at)))
    },
  }
}

const whatIs: Readonly<Record<EffectKind, string>> = {
  order: "starting a workflow",
  cancel: "cancelling a workflow",
  prompt: "a prompt of a trigger or a session",
  notify: "a notification",
  git: "changing a pull request",
  note: "a note",
}

const deliverWith = (
  deliveries: Deliveries,
  { id, session }: PendingEffect,
  effect: Effect,
): void | Promise<void> => {
  const deliver: (session: string, id: string, effect: never) => void | Promise<void> =
    deliveries[effect.do]
  return deliver(session, id, effect as never)
}
