/** Deadlines as rows and one alarm for the earliest: a host that slept or died finds them again. */
import { type Alarm, one, type Sql } from "./ports.ts"

export type DeadlineKind = "stop" | "prompt" | "barrier" | "ask"

export interface Deadlines {
  readonly set: (kind: DeadlineKind, ref: string, at: number) => void
  readonly clear: (kind: DeadlineKind, ref: string) => void
  /** Those that have passed, each once: they are gone when they are told. */
  readonly takeDue: (
    now: number,
  ) => readonly { readonly kind: DeadlineKind; readonly ref: string }[]
  /** Sets the host's alarm to the earliest deadline, if that has changed. */
  readonly arm: () => void
}

export const createDeadlines = (sql: Sql, alarm: Alarm): Deadlines => {
  let armed: number | undefined
  /** True at first: what an earlier life left behind is armed too. */
  let touched = true
  return {
    set: (kind, ref, at) => {
      touched = true
      sql.run("INSERT OR REPLACE INTO deadlines (kind, ref, at) VALUES (?, ?, ?)", kind, ref, at)
    },
    clear: (kind, ref) => {
      touched = true
      sql.run("DELETE FROM deadlines WHERE kind = ? AND ref = ?", kind, ref)
    },
    takeDue: (now) => {
      touched = true
      armed = undefined
      return sql.all<{ kind: DeadlineKind; ref: string }>(
        "DELETE FROM deadlines WHERE at <= ? RETURNING kind, ref",
        now,
      )
    },
    arm: () => {
      if (!touched) return
      touched = false
      const next = one(sql.all<{ at: number | null }>("SELECT min(at) AS at FROM deadlines"))?.at
      if ((next ?? undefined) === armed) return
      armed = next ?? undefined
      alarm.set(armed)
    },
  }
}
