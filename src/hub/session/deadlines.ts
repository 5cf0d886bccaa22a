/** Deadlines as rows, and the host's one alarm for the earliest of them: a host that slept or crashed keeps them. */
import type { z } from "zod"
import type { Alarm, Sql } from "./ports.ts"
import { deadlineRow, deadlineTimeRow, readRow, readRows } from "./rows.ts"

type Deadline = z.output<typeof deadlineRow>

export interface Deadlines {
  readonly set: (kind: Deadline["kind"], ref: string, at: number) => void
  readonly clear: (kind: Deadline["kind"], ref: string) => void
  /** Deletes the deadlines that have passed and returns them. */
  readonly takeDue: (now: number) => readonly Deadline[]
  /** Something else that needs the alarm has changed. */
  readonly touch: () => void
  /** Sets the host's alarm to the earliest deadline, if that has changed. */
  readonly arm: () => void
}

/** `other`: when something else needs the alarm. */
export const createDeadlines = (
  sql: Sql,
  alarm: Alarm,
  other: () => number | undefined,
): Deadlines => {
  let armed: number | undefined
  /** True at first: the rows may hold deadlines from before a restart. */
  let changed = true
  return {
    set: (kind, ref, at) => {
      changed = true
      sql.run("INSERT OR REPLACE INTO deadlines (kind, ref, at) VALUES (?, ?, ?)", kind, ref, at)
    },
    clear: (kind, ref) => {
      changed = true
      sql.run("DELETE FROM deadlines WHERE kind = ? AND ref = ?", kind, ref)
    },
    takeDue: (now) => {
      changed = true
      armed = undefined
      return readRows(
        sql,
        deadlineRow,
        "DELETE FROM deadlines WHERE at <= ? RETURNING kind, ref",
        now,
      )
    },
    touch: () => {
      changed = true
    },
    arm: () => {
      if (!changed) return
      changed = false
      const first = readRow(sql, deadlineTimeRow, "SELECT min(at) AS at FROM deadlines")?.at
      const next = earliest([first ?? undefined, other()])
      if (next === armed) return
      armed = next
      alarm.set(next)
    },
  }
}

export const earliest = (times: readonly (number | undefined)[]): number | undefined => {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}
