/** Collects what changed in the running turns, and stores it in the transaction that stores the frames about it. */
import { changedTexts, changedTurn } from "../turn/turn-record.ts"
import type { Outcome, Turn } from "../turn/turn.ts"
import type { JobStore } from "./job-store.ts"
import type { RunningTurn } from "./turn-effects.ts"

export interface TurnPersistence {
  readonly turnChanged: (id: string, turn: RunningTurn) => void
  readonly ended: (id: string, outcome: Outcome) => void
  readonly outcomeOf: (id: string) => Outcome | undefined
  /** Called inside the transaction that stores the frames; writes only what changed since the last one. */
  readonly persist: () => void
  /** Called after the transaction is committed; until then the same changes are written again. */
  readonly persisted: () => void
}

export const createTurnPersistence = (store: JobStore): TurnPersistence => {
  const changed = new Map<string, RunningTurn>()
  /** Each turn in its stored state. */
  const written = new WeakMap<RunningTurn, Turn>()
  const ended = new Map<string, Outcome>()
  return {
    turnChanged: (id, turn) => void changed.set(id, turn),
    ended: (id, outcome) => void ended.set(id, outcome),
    outcomeOf: (id) => ended.get(id) ?? store.outcomeOf(id),
    persist: () => {
      for (const [id, running] of changed) {
        if (ended.has(id)) continue
        const now = running.state()
        const before = written.get(running)
        store.changed(id, changedTurn(now, before), changedTexts(now, before))
      }
      for (const [id, outcome] of ended) store.ended(id, outcome)
    },
    persisted: () => {
      for (const running of changed.values()) written.set(running, running.state())
      changed.clear()
      ended.clear()
    },
  }
}
