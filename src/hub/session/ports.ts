/** What the session's core needs of its host: a database, sockets, a clock, one alarm, a place for big things. */
import type { Outbound, RequestFrame } from "../../wire/frames/index.ts"

export type SqlValue = string | number | null

/** The dialect is what both SQLite hosts take: at most 100 values a statement, rows below 2 MB. */
export interface Sql {
  readonly all: <Row>(query: string, ...values: readonly SqlValue[]) => Row[]
  readonly run: (query: string, ...values: readonly SqlValue[]) => void
  /** All of it or nothing; may be nested, the outermost one counts. */
  readonly transaction: <Result>(work: () => Result) => Result
}

/** A connection is known by an id that its host gives it and that outlives the host's memory. */
export interface Sockets {
  /** A socket that is gone swallows what it is sent: who misses it asks again. */
  readonly send: (connection: string, text: string) => void
  /** To every client that has subscribed. */
  readonly broadcast: (text: string) => void
  readonly subscribe: (connection: string) => void
  readonly close: (connection: string, code: number, reason: string) => void
}

/** Base64 never goes into a row: it is put here, and the row says where. */
export interface Blobs {
  readonly put: (id: string, mime: string, base64: string) => void
  /** What was put, as base64. */
  readonly get: (id: string) => string | undefined
  /** One that is not there is gone already. */
  readonly remove: (id: string) => void
  /** Every blob of this session. */
  readonly ids: () => readonly string[]
}

export interface Alarm {
  /** One alarm: the last time it is told counts, `undefined` takes it back. It rings at least once, maybe late. */
  readonly set: (at: number | undefined) => void
}

export interface Ports {
  readonly sql: Sql
  readonly sockets: Sockets
  readonly blobs: Blobs
  readonly alarm: Alarm
  readonly now: () => number
  readonly newId: () => string
  /** A short name that this text has and no other. */
  readonly digest: (text: string) => string
  /** Any number from 0 to 1, for what many sessions of one host do over and over and should not all do at once. */
  readonly chance: () => number
  /** A moment's wait that need not survive: what depends on it is safe without it. Returns its cancellation. */
  readonly later: (ms: number, run: () => void) => () => void
  /** Answers a request of the runner; a repeated `requestId` is not carried out twice. */
  readonly answer: (frame: RequestFrame) => Promise<Record<string, unknown>>
  /** A run of a workflow has ended or waits for a decision. */
  readonly executed: (
    executionId: string,
    envelope: Outbound<"workflow-execution-result">["envelope"],
  ) => void
  /** The runner says that the session's work is done. */
  readonly ended: () => void
  /** What is worth a line in a log; never a value out of a frame. */
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
}

export const one = <Row>(rows: readonly Row[]): Row | undefined => rows[0]
