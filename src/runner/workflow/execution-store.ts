/**
 * Workflow executions on disk: stored before their first step, with a record per step, and ended in the same transaction
 * as the result frame. A repeated idempotency key finds its execution and does not run again.
 */
import type { Database } from "bun:sqlite"
import type { Outbound } from "../../wire/frames/index.ts"
import type { StepRecord } from "./run.ts"

export type Envelope = Outbound<"workflow-execution-result">["envelope"]

export interface Execution {
  /** The runner's own id of the execution. */
  readonly id: string
  readonly executionId: string
  readonly key: string
  /** Who receives the result: the session agent, or the shell that waits for it. */
  readonly origin: "link" | "shell"
  readonly hash: string
  readonly order: Order
  readonly state: "running" | "waiting" | "ended"
  /** The approval that it waits for, or last waited for. */
  readonly approval?: { readonly token: string; readonly place: string }
  readonly approved: readonly string[]
  readonly envelope?: Envelope
}

/** The request, stored because a resumed execution needs it again. */
export interface Order {
  readonly workflow: unknown
  readonly variables: Readonly<Record<string, unknown>>
  readonly maxSteps: number
  readonly attempt: number
  readonly model?: string | undefined
  readonly modelPreferences?: readonly string[] | undefined
}

export interface ExecutionStore {
  readonly byKey: (key: string) => Execution | undefined
  /** The latest with this id. */
  readonly byExecution: (executionId: string) => Execution | undefined
  readonly running: () => readonly Execution[]
  readonly journal: (id: string) => readonly StepRecord[]
  readonly save: (execution: Execution) => void
  readonly note: (id: string, record: StepRecord) => void
}

/** Ended executions that are kept for repeated requests. */
const KEPT = 500

export const openExecutionStore = (db: Database): ExecutionStore => {
  db.run(`CREATE TABLE IF NOT EXISTS executions (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, key TEXT NOT NULL UNIQUE, execution TEXT NOT NULL,
    state TEXT NOT NULL, data TEXT NOT NULL) STRICT`)
  db.run(`CREATE TABLE IF NOT EXISTS execution_steps (
    execution TEXT NOT NULL, step TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (execution, step)) STRICT`)
  type Row = { readonly data: string }
  const byKey = db.query<Row, [string]>("SELECT data FROM executions WHERE key = ?")
  const byExecution = db.query<Row, [string]>(
    "SELECT data FROM executions WHERE execution = ? ORDER BY place DESC LIMIT 1",
  )
  const running = db.query<Row, []>(
    "SELECT data FROM executions WHERE state = 'running' ORDER BY place",
  )
  const journal = db.query<{ readonly record: string }, [string]>(
    "SELECT record FROM execution_steps WHERE execution = ? ORDER BY rowid",
  )
  const put =
    db.query(`INSERT INTO executions (id, key, execution, state, data) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, data = excluded.data`)
  const putStep = db.query(`INSERT INTO execution_steps (execution, step, record) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET record = excluded.record`)
  const forgetSteps = db.query("DELETE FROM execution_steps WHERE execution = ?")
  const sweep = db.query(
    "DELETE FROM executions WHERE state = 'ended' AND place <= (SELECT max(place) FROM executions) - ?",
  )
  const read = (row: Row | null): Execution | undefined => (row ? JSON.parse(row.data) : undefined)
  return {
    byKey: (key) => read(byKey.get(key)),
    byExecution: (id) => read(byExecution.get(id)),
    running: () => running.all().flatMap((row) => read(row) ?? []),
    journal: (id) => journal.all(id).map(({ record }) => JSON.parse(record)),
    save: (execution) => {
      const { id, key, executionId, state } = execution
      put.run(id, key, executionId, state, JSON.stringify(execution))
      if (state !== "ended") return
      forgetSteps.run(id)
      sweep.run(KEPT)
    },
    note: (id, record) => void putStep.run(id, record.stepId, JSON.stringify(record)),
  }
}
