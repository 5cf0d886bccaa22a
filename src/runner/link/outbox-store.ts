/** The outbox on disk: one row per batch of frames, so that a burst of a thousand frames costs one insert. */
import type { Database } from "bun:sqlite"
import { readFact, writeFact } from "../../lib/state-db.ts"
import type { OutboxStore } from "./outbox.ts"

const HEAD = "outbox.head"
const EPOCH = "outbox.epoch"

/** Other data to store atomically with the frames: `write` runs inside their transaction, `done` after its commit. */
export interface TransactionHooks {
  readonly write: () => void
  readonly done: () => void
}

export const openOutboxStore = (db: Database, hooks?: TransactionHooks): OutboxStore => {
  db.run(
    "CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY, count INTEGER NOT NULL, lines TEXT NOT NULL) STRICT",
  )
  const insert = db.query("INSERT INTO outbox (seq, count, lines) VALUES (?, ?, ?)")
  const all = db.query<{ seq: number; lines: string }, []>(
    "SELECT seq, lines FROM outbox ORDER BY seq",
  )
  const deleteBefore = db.query("DELETE FROM outbox WHERE seq + count <= ?")
  const deleteFrom = db.query("DELETE FROM outbox WHERE seq >= ?")
  const straddling = db.query<{ seq: number; lines: string }, [number, number]>(
    "SELECT seq, lines FROM outbox WHERE seq < ? AND seq + count > ?",
  )
  const add = (seq: number, lines: readonly string[]) => {
    if (lines.length > 0) insert.run(seq, lines.length, lines.join("\n"))
  }
  let head = Number(readFact(db, HEAD) ?? 1)
  const setHead = (headSeq: number) => {
    if (headSeq === head) return
    head = headSeq
    deleteBefore.run(headSeq)
    writeFact(db, HEAD, String(headSeq))
  }
  type Write = (headSeq: number, seq: number, lines: readonly string[]) => void
  const inTransaction = (write: Write): Write => {
    const transaction = db.transaction((...args: Parameters<Write>) => {
      write(...args)
      hooks?.write()
    })
    return (...args) => {
      const before = head
      try {
        transaction(...args)
      } catch (error) {
        // The rollback restored the old head on disk; the next write must store the new head again.
        head = before
        throw error
      }
      hooks?.done()
    }
  }
  return {
    load: () => {
      const headSeq = Number(readFact(db, HEAD) ?? 1)
      const lines = all
        .all()
        .flatMap((row) => row.lines.split("\n").slice(Math.max(0, headSeq - row.seq)))
      return { headSeq, lines }
    },
    append: inTransaction((headSeq, seq, lines) => {
      add(seq, lines)
      setHead(headSeq)
    }),
    rewrite: inTransaction((headSeq, seq, lines) => {
      const row = straddling.get(seq, seq)
      deleteFrom.run(row ? row.seq : seq)
      if (row) add(row.seq, row.lines.split("\n").slice(0, seq - row.seq))
      add(seq, lines)
      setHead(headSeq)
    }),
  }
}

/** Identifies this state directory to the session agent. Created once, and kept as long as the directory exists. */
export const readEpoch = (db: Database, random: () => string): string => {
  const known = readFact(db, EPOCH)
  if (known !== undefined) return known
  const epoch = random()
  writeFact(db, EPOCH, epoch)
  return epoch
}
