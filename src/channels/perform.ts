/** Carries out what a turn asks for, and brings back what came of it as the turn's next events. */
import { AgentCallError, type AgentClient } from "../agent/client.ts"
import type { PromptBody } from "../agent/shapes.ts"
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../log.ts"
import type { OutboundFrame } from "../protocol/index.ts"
import { step } from "../turn/step.ts"
import {
  type Budgets,
  type Effect,
  newTurn,
  type Outcome,
  type ReadReason,
  type SessionSnapshot,
  type Turn,
  type TurnEvent,
  type TurnIdentity,
} from "../turn/turn.ts"

export interface TurnOptions {
  readonly identity: TurnIdentity
  readonly body: PromptBody
  readonly client: AgentClient
  readonly clock: Clock
  readonly log: Log
  readonly send: (frame: OutboundFrame) => void
  readonly onEnded: (outcome: Outcome) => void
  readonly budgets?: Budgets
}

/** A turn that runs. What is told to it after its end changes nothing. */
export interface RunningTurn {
  readonly identity: TurnIdentity
  readonly tell: (event: TurnEvent) => void
  readonly now: () => Turn
}

export const startTurn = (options: TurnOptions): RunningTurn => {
  const { identity, client, clock, log, body } = options
  let turn = newTurn(identity, options.budgets)
  const timers = new Map<string, () => void>()

  const tell = (event: TurnEvent): void => {
    const [next, effects] = step(turn, event, clock.now())
    turn = next
    for (const effect of effects) perform(effect)
  }

  const perform = (effect: Effect): void => {
    switch (effect.do) {
      case "send":
        return options.send(effect.frame)
      case "post":
        return post()
      case "read":
        return read(effect.why)
      case "abort":
        return inBackground("abort", client.abort(identity.sessionId))
      case "reply-question":
        return inBackground("answer", client.replyQuestion(effect.requestId, effect.answers))
      case "reject-question":
        return inBackground("reject", client.rejectQuestion(effect.requestId))
      case "allow":
        return inBackground("allow", client.allowOnce(effect.permissionId))
      case "timer":
        timers.get(effect.name)?.()
        timers.set(
          effect.name,
          clock.after(effect.ms, () => tell({ type: "timer", name: effect.name })),
        )
        return
      case "ended":
        for (const cancel of timers.values()) cancel()
        log.info("turn.ended", { turnId: identity.turnId, outcome: effect.outcome.type })
        return options.onEnded(effect.outcome)
    }
  }

  const post = (): void => {
    client.prompt(identity.sessionId, body).then(
      () => tell({ type: "posted" }),
      (error: unknown) =>
        tell({
          type: "post-failed",
          error: describeError(error),
          definite: error instanceof AgentCallError && error.isDefinite,
        }),
    )
  }

  const read = (why: ReadReason): void => {
    readSession().then(
      (snapshot) => tell({ type: "read", why, snapshot }),
      (error: unknown) => tell({ type: "read-failed", why, error: describeError(error) }),
    )
  }

  const readSession = async (): Promise<SessionSnapshot> => {
    const [statuses, messages] = await Promise.all([
      client.statuses(),
      client.messages(identity.sessionId),
    ])
    return { status: statuses.get(identity.sessionId) ?? { type: "idle" }, messages }
  }

  // The turn does not wait for these: what they change comes back on the event stream, or a timer looks for it.
  const inBackground = (what: string, call: Promise<void>): void => {
    call.catch((error: unknown) =>
      log.warn("turn.call-failed", { what, turnId: identity.turnId, error: describeError(error) }),
    )
  }

  return { identity, tell, now: () => turn }
}
