/**
 * Jobs on disk: queued with their frame, running with their turn, ended with their outcome. Changes of a running turn
 * are written in the same transaction as the frames that report them. Ended jobs are kept for a while, so that a
 * duplicate is recognized and a prompt can be reverted.
 */
import type { Database } from "bun:sqlite"
import type { SavedText, SavedTurn } from "../turn/turn-record.ts"
import type { Outcome } from "../turn/turn.ts"
import type { Job } from "./jobs.ts"
import type { Posting } from "./turn-effects.ts"

export type StoredJob =
  | { readonly state: "queued"; readonly job: Job }
  | {
      readonly state: "running"
      readonly job: Job
      readonly posting: Posting
      readonly turn: SavedTurn
      readonly texts: readonly SavedText[]
    }

/** The OpenCode message of a prompt, and the ids of this prompt and all later ones on its channel. */
export interface KnownMessage {
  readonly channelKey: string
  readonly agentSessionId: string
  readonly userMessageId: string
  readonly idsFromHere: readonly string[]
}

export interface JobStore {
  /** Queued and running jobs, in the order in which they were received. */
  readonly unfinished: () => readonly StoredJob[]
  readonly stateOf: (id: string) => "queued" | "running" | "ended" | undefined
  readonly outcomeOf: (id: string) => Outcome | undefined
  readonly messageOf: (id: string) => KnownMessage | undefined
  /** A job has posted this user message to OpenCode, follows it, or has shown the answer to it. */
  readonly hasUserMessage: (userMessageId: string) => boolean
  /** The turn of a job has shown the answers to these user messages, too: OpenCode or another client has added them. */
  readonly adopted: (userMessageIds: readonly string[]) => void
  readonly queued: (id: string, channelKey: string, job: Job) => void
  /** Called before the prompt is posted to OpenCode, so that a crash in between does not post a second prompt. */
  readonly started: (id: string, posting: Posting, turn: SavedTurn) => void
  readonly changed: (id: string, turn: SavedTurn | undefined, texts: readonly SavedText[]) => void
  readonly ended: (id: string, outcome: Outcome) => void
}

const KEPT_ENDED = 2000

interface JobRow {
  readonly id: string
  readonly state: string
  readonly job: string
  readonly posting: string | null
  readonly turn: string | null
}

interface TextRow {
  readonly id: string
  readonly message: string
  readonly kind: "text" | "reasoning"
  readonly sent: number
  readonly ended: number
  readonly dropped: number
}

export const openJobStore = (db: Database): JobStore => {
  db.run(`CREATE TABLE IF NOT EXISTS jobs (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, channel TEXT NOT NULL, state TEXT NOT NULL,
    job TEXT, posting TEXT, turn TEXT, outcome TEXT, session TEXT, message TEXT) STRICT`)
  db.run("CREATE INDEX IF NOT EXISTS jobs_unfinished ON jobs (state) WHERE state <> 'ended'")
  db.run("CREATE INDEX IF NOT EXISTS jobs_message ON jobs (message)")
  db.run(`CREATE TABLE IF NOT EXISTS adopted_messages (
    place INTEGER PRIMARY KEY AUTOINCREMENT, message TEXT NOT NULL UNIQUE) STRICT`)
  db.run(`CREATE TABLE IF NOT EXISTS turn_texts (
    job TEXT NOT NULL, id TEXT NOT NULL, message TEXT NOT NULL, kind TEXT NOT NULL, sent INTEGER NOT NULL,
    ended INTEGER NOT NULL, dropped INTEGER NOT NULL, PRIMARY KEY (job, id)) STRICT`)

  const unfinished = db.query<JobRow, []>(
    "SELECT id, state, job, posting, turn FROM jobs WHERE state <> 'ended' ORDER BY place",
  )
  const textsOf = db.query<TextRow, [string]>(
    "SELECT id, message, kind, sent, ended, dropped FROM turn_texts WHERE job = ? ORDER BY rowid",
  )
  const stateOf = db.query<{ state: "queued" | "running" | "ended" }, [string]>(
    "SELECT state FROM jobs WHERE id = ?",
  )
  const outcomeOf = db.query<{ outcome: string | null }, [string]>(
    "SELECT outcome FROM jobs WHERE id = ?",
  )
  const messageOf = db.query<
    { place: number; channel: string; session: string | null; message: string | null },
    [string]
  >("SELECT place, channel, session, message FROM jobs WHERE id = ?")
  const byMessage = db.query<{ found: number }, [string]>(
    `SELECT 1 AS found FROM jobs WHERE message = ?1
     UNION ALL SELECT 1 FROM adopted_messages WHERE message = ?1 LIMIT 1`,
  )
  const adopt = db.query("INSERT OR IGNORE INTO adopted_messages (message) VALUES (?)")
  const deleteOldestAdopted = db.query(
    "DELETE FROM adopted_messages WHERE place <= (SELECT max(place) FROM adopted_messages) - ?",
  )
  const fromPlace = db.query<{ id: string }, [string, number]>(
    "SELECT id FROM jobs WHERE channel = ? AND place >= ? ORDER BY place",
  )
  const insert = db.query("INSERT INTO jobs (id, channel, state, job) VALUES (?, ?, 'queued', ?)")
  const start = db.query(
    "UPDATE jobs SET state = 'running', posting = ?, turn = ?, session = ?, message = ? WHERE id = ?",
  )
  const setTurn = db.query("UPDATE jobs SET turn = ? WHERE id = ?")
  const setText = db.query(`INSERT INTO turn_texts (job, id, message, kind, sent, ended, dropped)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET sent = excluded.sent, ended = excluded.ended, dropped = excluded.dropped`)
  const end = db.query(
    "UPDATE jobs SET state = 'ended', outcome = ?, job = NULL, posting = NULL, turn = NULL WHERE id = ?",
  )
  const deleteTexts = db.query("DELETE FROM turn_texts WHERE job = ?")
  const deleteOldest = db.query(
    "DELETE FROM jobs WHERE state = 'ended' AND place <= (SELECT max(place) FROM jobs) - ?",
  )

  return {
    unfinished: () =>
      unfinished.all().map((row): StoredJob => {
        const job: Job = JSON.parse(row.job)
        if (row.state === "queued" || row.posting === null || row.turn === null) {
          return { state: "queued", job }
        }
        const texts = textsOf.all(row.id).map(toText)
        const posting: Posting = JSON.parse(row.posting)
        return { state: "running", job, posting, turn: JSON.parse(row.turn), texts }
      }),
    stateOf: (id) => stateOf.get(id)?.state,
    outcomeOf: (id) => {
      const text = outcomeOf.get(id)?.outcome
      return text ? JSON.parse(text) : undefined
    },
    messageOf: (id) => {
      const row = messageOf.get(id)
      if (!row || row.session === null || row.message === null) return undefined
      const idsFromHere = fromPlace.all(row.channel, row.place).map((later) => later.id)
      return {
        channelKey: row.channel,
        agentSessionId: row.session,
        userMessageId: row.message,
        idsFromHere,
      }
    },
    hasUserMessage: (userMessageId) => byMessage.get(userMessageId) !== null,
    adopted: (userMessageIds) => {
      for (const userMessageId of userMessageIds) adopt.run(userMessageId)
      if (userMessageIds.length > 0) deleteOldestAdopted.run(KEPT_ENDED)
    },
    queued: (id, channelKey, job) => void insert.run(id, channelKey, JSON.stringify(job)),
    started: (id, posting, turn) => {
      const { sessionId, userMessageId } = turn.identity
      start.run(JSON.stringify(posting), JSON.stringify(turn), sessionId, userMessageId, id)
    },
    changed: (id, turn, texts) => {
      if (turn) setTurn.run(JSON.stringify(turn), id)
      for (const { id: partId, messageId, kind, sent, ended, dropped } of texts) {
        setText.run(id, partId, messageId, kind, sent, Number(ended), Number(dropped))
      }
    },
    ended: (id, outcome) => {
      end.run(JSON.stringify(outcome), id)
      deleteTexts.run(id)
      deleteOldest.run(KEPT_ENDED)
    },
  }
}

const toText = ({ message, ended, dropped, ...part }: TextRow): SavedText => ({
  ...part,
  messageId: message,
  ended: ended === 1,
  dropped: dropped === 1,
})
