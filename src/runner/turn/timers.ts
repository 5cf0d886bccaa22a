/** The timers of a turn: budgets for the first event, for silence and for the whole turn, and delayed reads. Pure. */
import { type Draft, requestRead, setTimer } from "./draft.ts"
import { finish } from "./finish.ts"
import { isWaiting } from "./questions.ts"
import { stop } from "./stopping.ts"
import { isRunning } from "./tool-calls.ts"
import { seconds } from "./timeouts.ts"
import { sendOutputs } from "./tool-output.ts"
import type { TimerName } from "./turn.ts"

export const onTimer = (turn: Draft, name: TimerName, at: number): void => {
  const { firstEvent, progress, total } = turn.settings.budgets
  switch (name) {
    case "post-check":
      return turn.messages.length === 0 ? requestRead(turn, "post-check") : undefined
    case "recheck":
      return requestRead(turn, "recheck")
    case "first-event":
      if (turn.modelResponded) return
      return stop(
        turn,
        "budget",
        withProviderMessage(turn, `no answer within ${seconds(firstEvent)}`),
      )
    case "progress": {
      // A running tool and an open question have no limit for silence.
      const busy = turn.tools.some(isRunning) || isWaiting(turn)
      const left = busy ? progress : turn.progressAt + progress - at
      if (left > 0) return setTimer(turn, "progress", left)
      return stop(turn, "budget", withProviderMessage(turn, `no progress for ${seconds(progress)}`))
    }
    case "tool-output":
      return sendOutputs(turn)
    case "total":
      return stop(turn, "budget", `the turn took longer than ${seconds(total)}`)
    case "stopping":
      if (!turn.stopped) return
      return finish(turn, { type: "error", error: "OpenCode did not stop after repeated aborts" })
  }
}

export const armBudgets = (turn: Draft): void => {
  setTimer(turn, "first-event", turn.settings.budgets.firstEvent)
  setTimer(turn, "progress", turn.settings.budgets.progress)
}

const withProviderMessage = ({ lastRetry }: Draft, what: string): string =>
  lastRetry === undefined ? what : `${what} (the provider reported: ${lastRetry.message})`
