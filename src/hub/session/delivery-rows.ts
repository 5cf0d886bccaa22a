/** The table of deliveries (deliveries.ts) and its rows. */
import { z } from "zod"
import { parseJson } from "../../lib/json.ts"
import type { Sql } from "./ports.ts"
import { readRow, readRows } from "./rows.ts"

const deliveryRow = z.object({
  id: z.string(),
  kind: z.string(),
  lane: z.string(),
  /** Text: a row that cannot be read must be found, to be given up. */
  payload: z.string(),
  attempts: z.number(),
  due_at: z.number(),
  begun_at: z.number().nullable(),
})
export type DeliveryRow = z.output<typeof deliveryRow>
const headRow = deliveryRow.pick({ kind: true, lane: true, due_at: true })
const waitingRow = deliveryRow.pick({ id: true, payload: true })

export interface NewDelivery<Payload> {
  readonly id: string
  readonly lane: string
  readonly payload: Payload
}

interface Failed {
  readonly attempts: number
  readonly dueAt: number
  readonly mayHaveArrived: boolean
}

export interface DeliveryRows<Payloads> {
  /** Inside the transaction that causes it. An id that is waiting already is not added again. */
  readonly add: <Kind extends keyof Payloads & string>(
    kind: Kind,
    delivery: NewDelivery<Payloads[Kind]>,
  ) => void
  /** What waits of a kind; rows that cannot be read are left out. */
  readonly waiting: <Kind extends keyof Payloads & string>(
    kind: Kind,
    payload: z.ZodType<Payloads[Kind]>,
  ) => readonly { readonly id: string; readonly payload: Payloads[Kind] }[]
  readonly remove: (id: string) => void
  /** The first row of each lane, oldest first. */
  readonly heads: () => readonly z.output<typeof headRow>[]
  readonly headOf: (lane: string) => DeliveryRow | undefined
  /** Its call begins. */
  readonly begin: (id: string) => void
  readonly postpone: (id: string, failed: Failed) => void
  /** What waits for its next attempt is due now. */
  readonly hasten: (kind: string) => void
  /** True once after rows were added or may have become due. */
  readonly takeWake: () => boolean
  readonly wake: () => void
}

export interface DeliveryRowsOptions {
  readonly sql: Sql
  readonly now: () => number
  /** The alarm may have to change. */
  readonly changed?: () => void
}

export const createDeliveryTable = (sql: Sql): void => {
  sql.run(`CREATE TABLE IF NOT EXISTS deliveries (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, lane TEXT NOT NULL,
    payload TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, due_at INTEGER NOT NULL, begun_at INTEGER)`)
  sql.run("CREATE INDEX IF NOT EXISTS deliveries_by_lane ON deliveries (lane, place)")
}

/** The lanes, by one look into the index for each: a lane may have thousands of rows, and this is read after many commits. */
const LANES = `WITH RECURSIVE lanes (lane) AS (
  SELECT min(lane) FROM deliveries
  UNION ALL SELECT (SELECT min(lane) FROM deliveries WHERE lane > lanes.lane) FROM lanes WHERE lane IS NOT NULL)`

export const createDeliveryRows = <Payloads>({
  sql,
  now,
  changed = () => {},
}: DeliveryRowsOptions): DeliveryRows<Payloads> => {
  /** True at first: the rows may be from before a restart. */
  let isAwake = true
  const wake = () => {
    isAwake = true
    changed()
  }
  return {
    wake,
    takeWake: () => {
      const was = isAwake
      isAwake = false
      return was
    },
    add: (kind, { id, lane, payload }) => {
      sql.run(
        "INSERT OR IGNORE INTO deliveries (id, kind, lane, payload, due_at) VALUES (?, ?, ?, ?, ?)",
        id,
        kind,
        lane,
        JSON.stringify(payload),
        now(),
      )
      wake()
    },
    waiting: (kind, schema) =>
      readRows(
        sql,
        waitingRow,
        "SELECT id, payload FROM deliveries WHERE kind = ? ORDER BY place",
        kind,
      ).flatMap(({ id, payload }) => {
        const read = schema.safeParse(parseJson(payload))
        return read.success ? [{ id, payload: read.data }] : []
      }),
    heads: () =>
      readRows(
        sql,
        headRow,
        `${LANES} SELECT kind, lane, due_at FROM deliveries WHERE place IN
           (SELECT (SELECT min(place) FROM deliveries WHERE deliveries.lane = lanes.lane) FROM lanes) ORDER BY place`,
      ),
    headOf: (lane) =>
      readRow(
        sql,
        deliveryRow,
        "SELECT * FROM deliveries WHERE lane = ? ORDER BY place LIMIT 1",
        lane,
      ),
    begin: (id) => sql.run("UPDATE deliveries SET begun_at = ? WHERE id = ?", now(), id),
    remove: (id) => {
      sql.run("DELETE FROM deliveries WHERE id = ?", id)
      changed()
    },
    postpone: (id, { attempts, dueAt, mayHaveArrived }) => {
      sql.run(
        "UPDATE deliveries SET attempts = ?, due_at = ?, begun_at = ? WHERE id = ?",
        attempts,
        dueAt,
        mayHaveArrived ? now() : null,
        id,
      )
      changed()
    },
    hasten: (kind) => {
      const at = now()
      sql.run("UPDATE deliveries SET due_at = ? WHERE kind = ? AND due_at > ?", at, kind, at)
      wake()
    },
  }
}
