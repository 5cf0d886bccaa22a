/** The prompt queue: a line for each channel, one prompt of it at work. The claim is one conditional UPDATE. */
import type { Inbound } from "../../wire/frames/index.ts"
import type { Attachments } from "./attachments.ts"
import type { Changes } from "./changes.ts"
import { one, type Ports } from "./ports.ts"

export type Prompt = Inbound<"prompt">

export interface Enqueued {
  readonly id: string
  /** False when the same client request was taken before. */
  readonly fresh: boolean
}

export interface QueueRow {
  readonly id: string
  readonly channel: string
  readonly prompt: string
  readonly status: string
  readonly stopping: number
  readonly error: string | null
}

export interface Queue {
  /** Nothing when the client's request id stands for another prompt already. */
  readonly add: (
    prompt: Prompt,
    channel: string,
    request?: string,
    first?: boolean,
  ) => Enqueued | undefined
  /** The next prompt of any channel that has none at work; it is at work from now on. */
  readonly claim: () => QueueRow | undefined
  readonly find: (id: string) => QueueRow | undefined
  /** The prompt of a row, whole: its files are elsewhere, and only until it ends. */
  readonly promptOf: (row: Pick<QueueRow, "prompt">) => Prompt
  readonly processing: (channel?: string) => readonly QueueRow[]
  readonly setError: (id: string, error: string) => void
  /** The one end of a prompt; false when it has ended already. */
  readonly finish: (id: string, status: "done" | "failed" | "canceled") => boolean
  readonly markStopping: (id: string) => void
  /** Everything at work that is not in `kept` goes back to the front of its line; returns what went back. */
  readonly requeueLost: (kept: readonly string[]) => readonly QueueRow[]
  /** Takes a prompt out before it was begun; false when it is too late. */
  readonly withdraw: (id: string) => boolean
  readonly promote: (id: string) => boolean
}

const columns = "id, channel, prompt, status, stopping, error"

export const createQueue = (
  { sql, now }: Pick<Ports, "sql" | "now">,
  changes: Changes,
  attachments: Attachments,
): Queue => {
  const note = () => changes.note("queue", "")
  const changed = (rows: readonly unknown[]): boolean => {
    if (rows.length > 0) note()
    return rows.length > 0
  }
  const ended = (id: string, rows: readonly unknown[]): boolean => {
    if (rows.length > 0) attachments.release(id)
    return changed(rows)
  }
  const find = (id: string) =>
    one(sql.all<QueueRow>(`SELECT ${columns} FROM queue WHERE id = ?`, id))
  return {
    promptOf: (row) => attachments.unstow(JSON.parse(row.prompt) as Prompt),
    add: (prompt, channel, request, first = false) => {
      const known = request === undefined ? undefined : byRequest(sql, request)
      if (known) {
        const same = sameAsking(JSON.parse(known.prompt) as Prompt, attachments.outline(prompt))
        return same && known.channel === channel ? { id: known.id, fresh: false } : undefined
      }
      const place = note()
      sql.run(
        "INSERT INTO queue (id, client_request_id, channel, place, priority, prompt, status, received_at) VALUES (?, ?, ?, ?, ?, ?, 'queued', ?)",
        prompt.messageId,
        request ?? null,
        channel,
        place,
        first ? place : 0,
        JSON.stringify(attachments.stow(prompt)),
        now(),
      )
      return { id: prompt.messageId, fresh: true }
    },
    claim: () => {
      const row = one(
        sql.all<QueueRow>(
          `UPDATE queue SET status = 'processing', dispatched_at = ? WHERE status = 'queued' AND id = (
             SELECT q.id FROM queue q WHERE q.status = 'queued' AND NOT EXISTS (
               SELECT 1 FROM queue p WHERE p.channel = q.channel AND p.status = 'processing')
             ORDER BY q.priority DESC, q.place LIMIT 1)
           RETURNING ${columns}`,
          now(),
        ),
      )
      if (row) note()
      return row
    },
    find,
    processing: (channel) =>
      sql
        .all<QueueRow>(`SELECT ${columns} FROM queue WHERE status = 'processing' ORDER BY place`)
        .filter((row) => channel === undefined || row.channel === channel),
    setError: (id, error) =>
      sql.run("UPDATE queue SET error = ? WHERE id = ? AND ended_at IS NULL", error, id),
    finish: (id, status) =>
      ended(
        id,
        sql.all(
          "UPDATE queue SET status = ?, ended_at = ? WHERE id = ? AND status IN ('queued', 'processing') RETURNING id",
          status,
          now(),
          id,
        ),
      ),
    markStopping: (id) =>
      void changed(
        sql.all(
          "UPDATE queue SET stopping = 1 WHERE id = ? AND status = 'processing' RETURNING id",
          id,
        ),
      ),
    requeueLost: (kept) => {
      const lost = sql
        .all<QueueRow>(`SELECT ${columns} FROM queue WHERE status = 'processing' ORDER BY place`)
        .filter(({ id }) => !kept.includes(id))
      for (const { id, stopping } of lost) {
        // Who was told to stop and is gone has stopped.
        if (stopping === 1) {
          sql.run("UPDATE queue SET status = 'canceled', ended_at = ? WHERE id = ?", now(), id)
          attachments.release(id)
        } else {
          sql.run(
            "UPDATE queue SET status = 'queued', priority = place, dispatched_at = NULL WHERE id = ?",
            id,
          )
        }
      }
      if (lost.length > 0) note()
      return lost
    },
    withdraw: (id) =>
      ended(
        id,
        sql.all(
          "UPDATE queue SET status = 'canceled', ended_at = ? WHERE id = ? AND status = 'queued' RETURNING id",
          now(),
          id,
        ),
      ),
    promote: (id) =>
      changed(
        sql.all(
          `UPDATE queue SET priority = (SELECT max(max(priority), max(place)) + 1 FROM queue)
           WHERE id = ? AND status = 'queued' RETURNING id`,
          id,
        ),
      ),
  }
}

const byRequest = (sql: Ports["sql"], request: string) =>
  one(
    sql.all<{ id: string; prompt: string; channel: string }>(
      "SELECT id, prompt, channel FROM queue WHERE client_request_id = ?",
      request,
    ),
  )

/** Everything but the id, which is new with every asking. */
const sameAsking = (known: Prompt, again: Prompt): boolean =>
  JSON.stringify({ ...known, messageId: "" }) === JSON.stringify({ ...again, messageId: "" })
