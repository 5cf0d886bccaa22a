/** Questions and permissions that the agent waits for, and approvals of workflows. They are stored, and the first answer counts. */
import type { z } from "zod"
import type { Interaction } from "../../wire/clients/conversation.ts"
import type { Changes } from "./changes.ts"
import type { Sql } from "./ports.ts"
import { answeredRow, entityChannelRow, hasRow, idRow, readRow, readRows } from "./rows.ts"

export type Answered = z.output<typeof answeredRow>

export interface Interactions {
  readonly open: (asked: {
    readonly id: string
    readonly kind: Interaction["kind"]
    readonly channel: string
    readonly promptId: string | undefined
    readonly payload: object
  }) => void
  /** True for the first answer only. */
  readonly answer: (answered: Answered, by: string) => boolean
  readonly exists: (id: string) => boolean
  readonly openQuestion: (channel: string) => string | undefined
  readonly openPermission: (channel: string) => string | undefined
  /** The turn has ended: its open interactions are not waited for any more. */
  readonly expire: (promptId: string) => void
  /** The decision is the shared store's; without one, the run has ended. */
  readonly closeApproval: (id: string, isApproved: boolean | undefined) => void
  /** The runner does not wait for this one any more. */
  readonly expireOne: (id: string) => void
  /** Answers that the runner may have missed while it was disconnected. It ignores an answer that it has already. */
  readonly answeredOf: (promptIds: readonly string[]) => readonly Answered[]
}

const oldestOpen = (sql: Sql, channel: string, kind: Interaction["kind"]): string | undefined =>
  readRow(
    sql,
    idRow,
    "SELECT id FROM interactions WHERE channel = ? AND kind = ? AND status = 'open' ORDER BY at LIMIT 1",
    channel,
    kind,
  )?.id

export const createInteractions = (sql: Sql, changes: Changes, now: () => number): Interactions => {
  const record = ({ id, channel }: { readonly id: string; readonly channel: string }) => {
    changes.record("interaction", id)
    changes.record("channel", channel)
  }
  const expireWhere = (column: "id" | "prompt_id", value: string) => {
    const expired = readRows(
      sql,
      entityChannelRow,
      `UPDATE interactions SET status = 'expired' WHERE ${column} = ? AND status = 'open' RETURNING id, channel`,
      value,
    )
    for (const one of expired) record(one)
  }
  return {
    open: ({ id, kind, channel, promptId, payload }) => {
      sql.run(
        "INSERT OR IGNORE INTO interactions (id, kind, prompt_id, channel, payload, status, at) VALUES (?, ?, ?, ?, ?, 'open', ?)",
        id,
        kind,
        promptId ?? null,
        channel,
        JSON.stringify(payload),
        now(),
      )
      record({ id, channel })
    },
    answer: ({ id, kind, answer }, by) => {
      const answered = readRow(
        sql,
        entityChannelRow,
        "UPDATE interactions SET status = 'answered', answer = ?, answered_by = ? WHERE id = ? AND kind = ? AND status = 'open' RETURNING id, channel",
        JSON.stringify(answer),
        by,
        id,
        kind,
      )
      if (answered) record(answered)
      return answered !== undefined
    },
    closeApproval: (id, isApproved) => {
      if (isApproved === undefined) return expireWhere("id", id)
      const answered = readRow(
        sql,
        entityChannelRow,
        "UPDATE interactions SET status = 'answered', answer = ? WHERE id = ? AND status = 'open' RETURNING id, channel",
        JSON.stringify(isApproved),
        id,
      )
      if (answered) record(answered)
    },
    exists: (id) => hasRow(sql, "SELECT 1 FROM interactions WHERE id = ?", id),
    openQuestion: (channel) => oldestOpen(sql, channel, "question"),
    openPermission: (channel) => oldestOpen(sql, channel, "permission"),
    expire: (promptId) => expireWhere("prompt_id", promptId),
    expireOne: (id) => expireWhere("id", id),
    answeredOf: (promptIds) =>
      readRows(
        sql,
        answeredRow,
        "SELECT id, kind, answer FROM interactions WHERE status = 'answered' AND prompt_id IN (SELECT value FROM json_each(?))",
        JSON.stringify(promptIds),
      ),
  }
}
