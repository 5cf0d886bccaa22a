/**
 * The prompt queue: one line per channel, with at most one running prompt and those that steer it. A claim is one
 * conditional UPDATE.
 */
import type { Inbound } from "../../wire/frames/index.ts"
import type { Attachments } from "./attachments.ts"
import type { Changes } from "./changes.ts"
import type { Ports } from "./ports.ts"
import {
  countRow,
  entityChannelRow,
  knownPromptRow,
  normalizePrompt,
  type QueueRow,
  queueRow,
  readPrompt,
  readRow,
  readRows,
} from "./rows.ts"

export type Prompt = Inbound<"prompt">

export interface AddedPrompt {
  readonly id: string
  /** False for a duplicate of a client request. */
  readonly fresh: boolean
}

export interface Queue {
  /** `undefined` when the client's request id was used for another prompt. */
  readonly add: (
    prompt: Prompt,
    channel: string,
    request?: string,
    first?: boolean,
  ) => AddedPrompt | undefined
  /** Takes a prompt that steers, or the next prompt of a channel without a running one; it counts as running from now on. */
  readonly claim: () => QueueRow | undefined
  readonly find: (id: string) => QueueRow | undefined
  /** The prompt of a row with its files, which exist until the prompt ends. */
  readonly promptOf: (row: Pick<QueueRow, "prompt">) => Prompt
  readonly countQueued: () => number
  readonly processing: (channel?: string) => readonly QueueRow[]
  readonly setError: (id: string, error: string) => void
  /** Ends a prompt; false when it has ended already. */
  readonly finish: (id: string, status: "done" | "failed" | "canceled") => boolean
  readonly markStopping: (id: string) => void
  /** Puts every running prompt that is not in `active` back to the front of its line and returns these prompts. */
  readonly requeueLost: (active: readonly string[]) => readonly QueueRow[]
  /** Takes a prompt out of the queue; false when it has been dispatched. */
  readonly withdraw: (id: string) => boolean
  readonly promote: (id: string) => boolean
}

const columns = "id, channel, prompt, status, stopping, error"
const RUNNING = `SELECT ${columns} FROM queue WHERE status = 'processing' ORDER BY place`

export const createQueue = (
  { sql, now }: Pick<Ports, "sql" | "now">,
  changes: Changes,
  attachments: Attachments,
): Queue => {
  const recordChange = (channel: string) => {
    changes.record("channel", channel)
    return changes.record("queue", "")
  }
  /** Runs an `UPDATE ... RETURNING id, channel`; true when it changed a row. */
  const update = (...statement: Parameters<Ports["sql"]["run"]>): boolean => {
    const row = readRow(sql, entityChannelRow, ...statement)
    if (row) recordChange(row.channel)
    return row !== undefined
  }
  /** The same for the end of a prompt, which releases its files. */
  const end = (id: string, ...statement: Parameters<Ports["sql"]["run"]>): boolean => {
    const hasEnded = update(...statement)
    if (hasEnded) attachments.release(id)
    return hasEnded
  }
  return {
    promptOf: (row) => attachments.load(readPrompt(row.prompt)),
    add: (prompt, channel, request, first = false) => {
      const known = request === undefined ? undefined : findByRequest(sql, request)
      if (known) {
        const isSame =
          known.channel === channel &&
          isSamePrompt(readPrompt(known.prompt), attachments.toReferences(prompt))
        return isSame ? { id: known.id, fresh: false } : undefined
      }
      const place = recordChange(channel)
      sql.run(
        "INSERT INTO queue (id, client_request_id, channel, place, priority, prompt, status, received_at) VALUES (?, ?, ?, ?, ?, ?, 'queued', ?)",
        prompt.messageId,
        request ?? null,
        channel,
        place,
        first ? place : 0,
        JSON.stringify(attachments.store(prompt)),
        now(),
      )
      return { id: prompt.messageId, fresh: true }
    },
    claim: () => {
      const row = readRow(
        sql,
        queueRow,
        `UPDATE queue SET status = 'processing', dispatched_at = ? WHERE status = 'queued' AND id = (
           SELECT q.id FROM queue q WHERE q.status = 'queued' AND (json_extract(q.prompt, '$.steer') = 1 OR NOT EXISTS (
             SELECT 1 FROM queue p WHERE p.channel = q.channel AND p.status = 'processing'))
           ORDER BY q.priority DESC, q.place LIMIT 1)
         RETURNING ${columns}`,
        now(),
      )
      if (row) recordChange(row.channel)
      return row
    },
    find: (id) => readRow(sql, queueRow, `SELECT ${columns} FROM queue WHERE id = ?`, id),
    countQueued: () =>
      readRow(sql, countRow, "SELECT count(*) AS count FROM queue WHERE status = 'queued'")
        ?.count ?? 0,
    processing: (channel) =>
      readRows(sql, queueRow, RUNNING).filter(
        (row) => channel === undefined || row.channel === channel,
      ),
    setError: (id, error) =>
      sql.run("UPDATE queue SET error = ? WHERE id = ? AND ended_at IS NULL", error, id),
    finish: (id, status) =>
      end(
        id,
        "UPDATE queue SET status = ?, ended_at = ? WHERE id = ? AND status IN ('queued', 'processing') RETURNING id, channel",
        status,
        now(),
        id,
      ),
    markStopping: (id) =>
      void update(
        "UPDATE queue SET stopping = 1 WHERE id = ? AND status = 'processing' RETURNING id, channel",
        id,
      ),
    requeueLost: (active) => {
      const lost = readRows(sql, queueRow, RUNNING).filter(({ id }) => !active.includes(id))
      for (const { id, stopping } of lost) {
        // A stop was requested and the turn is gone: the prompt is stopped.
        if (stopping === 1) {
          sql.run("UPDATE queue SET status = 'canceled', ended_at = ? WHERE id = ?", now(), id)
          attachments.release(id)
        } else {
          sql.run(
            // The same priority for all: a prompt that steers comes after the one that it steers.
            "UPDATE queue SET status = 'queued', priority = (SELECT max(place) FROM queue), dispatched_at = NULL WHERE id = ?",
            id,
          )
        }
      }
      for (const { channel } of lost) recordChange(channel)
      return lost
    },
    withdraw: (id) =>
      end(
        id,
        "UPDATE queue SET status = 'canceled', ended_at = ? WHERE id = ? AND status = 'queued' RETURNING id, channel",
        now(),
        id,
      ),
    promote: (id) =>
      update(
        `UPDATE queue SET priority = (SELECT max(max(priority), max(place)) + 1 FROM queue)
         WHERE id = ? AND status = 'queued' RETURNING id, channel`,
        id,
      ),
  }
}

const findByRequest = (sql: Ports["sql"], request: string) =>
  readRow(
    sql,
    knownPromptRow,
    "SELECT id, prompt, channel FROM queue WHERE client_request_id = ?",
    request,
  )

/** Compares everything but the id, which is new for every request. */
const isSamePrompt = (known: Prompt, repeated: Prompt): boolean =>
  JSON.stringify({ ...known, messageId: "" }) ===
  JSON.stringify({ ...normalizePrompt(repeated), messageId: "" })
