/** Keeps the store in step with the turns: notes what changed, and writes it when the frames that tell of it are written. */
import { changedTexts, changedTurn } from "../turn/turn-record.ts"
import type { Outcome, Turn } from "../turn/turn.ts"
import type { JobStore } from "./job-store.ts"
import type { RunningTurn } from "./turn-effects.ts"

export interface Ledger {
  readonly turnChanged: (id: string, turn: RunningTurn) => void
  readonly ended: (id: string, outcome: Outcome) => void
  readonly outcomeOf: (id: string) => Outcome | undefined
  /** Called inside the transaction that stores the frames; costs what has changed, not what there is. */
  readonly persist: () => void
  /** The transaction is through: what it wrote need not be written again. */
  readonly persisted: () => void
}

export const createLedger = (store: JobStore): Ledger => {
  const changed = new Map<string, RunningTurn>()
  /** Each turn as the store has it. */
  const written = new WeakMap<RunningTurn, Turn>()
  const ended = new Map<string, Outcome>()
  return {
    turnChanged: (id, turn) => void changed.set(id, turn),
    ended: (id, outcome) => void ended.set(id, outcome),
    outcomeOf: (id) => ended.get(id) ?? store.outcomeOf(id),
    persist: () => {
      for (const [id, running] of changed) {
        if (ended.has(id)) continue
        const now = running.now()
        const before = written.get(running)
        store.changed(id, changedTurn(now, before), changedTexts(now, before))
      }
      for (const [id, outcome] of ended) store.ended(id, outcome)
    },
    persisted: () => {
      for (const running of changed.values()) written.set(running, running.now())
      changed.clear()
      ended.clear()
    },
  }
}
