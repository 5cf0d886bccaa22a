/** Questions and permissions the agent waits for: durable, told to every client, and the first answer wins. */
import type { Changes } from "./changes.ts"
import { one, type Sql } from "./ports.ts"

export interface Interactions {
  readonly ask: (asked: {
    readonly id: string
    readonly kind: "question" | "permission"
    readonly channel: string
    readonly promptId: string | undefined
    readonly payload: unknown
  }) => void
  /** True for the first answer only. */
  readonly answer: (
    id: string,
    kind: "question" | "permission",
    answer: unknown,
    by: string,
  ) => boolean
  readonly statusOf: (id: string) => string | undefined
  readonly openQuestion: (channel: string) => string | undefined
  /** The turn is over: nobody waits for these any more. */
  readonly expire: (promptId: string) => void
  /** Answers that a runner may have missed with its connection: an answer given twice is harmless to it. */
  readonly answeredOf: (
    promptIds: readonly string[],
  ) => readonly { readonly id: string; readonly kind: string; readonly answer: string }[]
}

export const createInteractions = (
  sql: Sql,
  changes: Changes,
  now: () => number,
): Interactions => ({
  ask: ({ id, kind, channel, promptId, payload }) => {
    sql.run(
      "INSERT OR IGNORE INTO interactions (id, kind, prompt_id, channel, payload, status, at) VALUES (?, ?, ?, ?, ?, 'open', ?)",
      id,
      kind,
      promptId ?? null,
      channel,
      JSON.stringify(payload),
      now(),
    )
    changes.note("interaction", id)
  },
  answer: (id, kind, answer, by) => {
    const first = sql.all(
      "UPDATE interactions SET status = 'answered', answer = ?, answered_by = ? WHERE id = ? AND kind = ? AND status = 'open' RETURNING id",
      JSON.stringify(answer),
      by,
      id,
      kind,
    )
    if (first.length > 0) changes.note("interaction", id)
    return first.length > 0
  },
  statusOf: (id) =>
    one(sql.all<{ status: string }>("SELECT status FROM interactions WHERE id = ?", id))?.status,
  openQuestion: (channel) =>
    one(
      sql.all<{ id: string }>(
        "SELECT id FROM interactions WHERE channel = ? AND kind = 'question' AND status = 'open' ORDER BY at LIMIT 1",
        channel,
      ),
    )?.id,
  expire: (promptId) => {
    const over = sql.all<{ id: string }>(
      "UPDATE interactions SET status = 'expired' WHERE prompt_id = ? AND status = 'open' RETURNING id",
      promptId,
    )
    for (const { id } of over) changes.note("interaction", id)
  },
  answeredOf: (promptIds) =>
    sql.all(
      "SELECT id, kind, answer FROM interactions WHERE status = 'answered' AND prompt_id IN (SELECT value FROM json_each(?))",
      JSON.stringify(promptIds),
    ),
})
