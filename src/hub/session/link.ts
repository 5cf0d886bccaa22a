/** The runner's end of the session: which connection counts, what of its stream is stored, whether it may be given work. */
import type { Outbound } from "../../wire/frames/index.ts"
import { one, type Sql } from "./ports.ts"

/**
 * `greeting`: connected, nothing said. `reconciling`: it said what it runs, and what it had to tell from before is on its
 * way. `open`: all of that is known. `uncounted`: a runner that offers no reliable stream.
 */
export type LinkPhase = "away" | "greeting" | "reconciling" | "open" | "uncounted"

export interface LinkRow {
  readonly connection: string | null
  readonly epoch: string | null
  readonly phase: LinkPhase
  readonly barrier: string | null
  readonly active: readonly string[]
  readonly ready: boolean
}

export interface Link {
  readonly now: () => LinkRow
  readonly change: (change: Partial<LinkRow>) => void
  /** The last frame of this epoch that is stored. */
  readonly storedSeq: (epoch: string) => number
  readonly setStoredSeq: (epoch: string, seq: number) => void
  /** The rows are the truth: what is kept of them is read again. */
  readonly forget: () => void
}

export const createLink = (sql: Sql): Link => {
  let known: LinkRow | undefined
  const read = (): LinkRow => {
    const row = one(
      sql.all<Omit<LinkRow, "active" | "ready"> & { active: string; ready: number }>(
        "SELECT connection, epoch, phase, barrier, active, ready FROM link",
      ),
    )
    if (!row) throw new Error("the link has no row")
    return { ...row, active: JSON.parse(row.active) as string[], ready: row.ready === 1 }
  }
  const now = () => (known ??= read())
  return {
    now,
    change: (change) => {
      const next = { ...now(), ...change }
      known = next
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
      one(sql.all<{ last_seq: number }>("SELECT last_seq FROM epochs WHERE epoch = ?", epoch))
        ?.last_seq ?? 0,
    setStoredSeq: (epoch, seq) =>
      sql.run("INSERT OR REPLACE INTO epochs (epoch, last_seq) VALUES (?, ?)", epoch, seq),
    forget: () => {
      known = undefined
    },
  }
}

/** A turn that goes on is the same runner, as ready as it was; any other has to say so anew. */
export const staysReady = (before: LinkRow, hello: Outbound<"hello">): boolean =>
  before.ready &&
  before.epoch === hello.epoch &&
  hello.active.some(({ turnId }) => turnId !== undefined)
