/** What happens when nothing happens: a turn has a budget for its first event, for silence, and for all of it. Pure. */
import { type Draft, read, timer } from "./draft.ts"
import { finish } from "./finish.ts"
import { isWaiting } from "./questions.ts"
import { stop } from "./stopping.ts"
import { isRunning } from "./tool-calls.ts"
import type { TimerName } from "./turn.ts"

export const onTimer = (turn: Draft, name: TimerName, at: number): void => {
  const { firstEvent, progress, total } = turn.settings.budgets
  switch (name) {
    case "look":
      return turn.messages.length === 0 ? read(turn, "look") : undefined
    case "recheck":
      return read(turn, "recheck")
    case "first-event":
      if (turn.heard) return
      return stop(turn, "budget", because(turn, `no answer within ${seconds(firstEvent)}`))
    case "progress": {
      // A tool may be silent for as long as it likes, and so may a person.
      const busy = turn.tools.some(isRunning) || isWaiting(turn)
      const left = busy ? progress : turn.progressAt + progress - at
      if (left > 0) return timer(turn, "progress", left)
      return stop(turn, "budget", because(turn, `no progress for ${seconds(progress)}`))
    }
    case "total":
      return stop(turn, "budget", `the turn took longer than ${seconds(total)}`)
    case "stopping":
      if (!turn.stopped) return
      return finish(turn, { type: "error", error: "OpenCode did not stop when told to" })
  }
}

export const armBudgets = (turn: Draft): void => {
  timer(turn, "first-event", turn.settings.budgets.firstEvent)
  timer(turn, "progress", turn.settings.budgets.progress)
}

const because = ({ lastRetry }: Draft, what: string): string =>
  lastRetry === undefined ? what : `${what} (the provider said: ${lastRetry.message})`

const seconds = (ms: number): string => `${Math.round(ms / 1000)} s`
