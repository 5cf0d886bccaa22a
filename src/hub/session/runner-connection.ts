/**
 * The state of the runner's connection: which socket counts, how many of its frames are stored, and whether it may be
 * given work. It is a row, so a host that slept or restarted continues where it was.
 */
import type { z } from "zod"
import type { Outbound } from "../../wire/frames/index.ts"
import type { Sql } from "./ports.ts"
import { epochRow, readRow, runnerConnectionRow } from "./rows.ts"

export type RunnerConnectionState = Readonly<z.output<typeof runnerConnectionRow>>

export interface RunnerConnection {
  readonly state: () => RunnerConnectionState
  readonly update: (change: Partial<RunnerConnectionState>) => void
  /** The `seq` of the last frame of this epoch that is stored. */
  readonly storedSeq: (epoch: string) => number
  readonly setStoredSeq: (epoch: string, seq: number) => void
  /** After a rollback: the row is read again. */
  readonly discardCache: () => void
}

export const createRunnerConnection = (sql: Sql): RunnerConnection => {
  let cached: RunnerConnectionState | undefined
  const read = (): RunnerConnectionState => {
    const row = readRow(
      sql,
      runnerConnectionRow,
      "SELECT connection, epoch, phase, barrier, active, ready FROM link",
    )
    if (!row) throw new Error("the table `link` has no row: the schema was not migrated")
    return row
  }
  const state = () => (cached ??= read())
  return {
    state,
    update: (change) => {
      const next = { ...state(), ...change }
      cached = next
      sql.run(
        "UPDATE link SET connection = ?, epoch = ?, phase = ?, barrier = ?, active = ?, ready = ?",
        next.connection,
        next.epoch,
        next.phase,
        next.barrier,
        JSON.stringify(next.active),
        next.ready ? 1 : 0,
      )
    },
    storedSeq: (epoch) =>
      readRow(sql, epochRow, "SELECT last_seq FROM epochs WHERE epoch = ?", epoch)?.last_seq ?? 0,
    setStoredSeq: (epoch, seq) =>
      sql.run("INSERT OR REPLACE INTO epochs (epoch, last_seq) VALUES (?, ?)", epoch, seq),
    discardCache: () => {
      cached = undefined
    },
  }
}

/** A runner that reconnects during a turn is as ready as before; any other must report `idle` first. */
export const staysReady = (before: RunnerConnectionState, hello: Outbound<"hello">): boolean =>
  before.ready &&
  before.epoch === hello.epoch &&
  hello.active.some(({ turnId }) => turnId !== undefined)
