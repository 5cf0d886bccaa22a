/** Runs a turn: performs the effects that `step` returns and dispatches their results as the turn's next events. */
import { AgentCallError, type AgentClient, type CommandBody } from "../opencode/client/client.ts"
import { parseModel } from "../opencode/config/models.ts"
import type { PromptBody } from "../opencode/client/types.ts"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { createTimers } from "../../lib/timer.ts"
import type { OutboundFrame } from "../../wire/frames/index.ts"
import { step } from "../turn/step.ts"
import type {
  Effect,
  Outcome,
  ReadReason,
  SessionSnapshot,
  StoredMessage,
  TimerName,
  Turn,
  TurnEvent,
  TurnIdentity,
} from "../turn/turn.ts"

/** What is posted to OpenCode. Every post of a turn has the same body; only the model may differ. */
export type Posting =
  | { readonly kind: "prompt"; readonly body: PromptBody }
  | { readonly kind: "command"; readonly body: CommandBody }

export interface TurnOptions {
  /** A new turn, or one restored from an earlier process of the runner. */
  readonly turn: Turn
  readonly posting: Posting
  readonly client: AgentClient
  readonly clock: Clock
  readonly log: Log
  readonly send: (frame: OutboundFrame) => void
  /** Called after every event that changed the turn. */
  readonly onChange: (turn: RunningTurn) => void
  readonly onEnded: (outcome: Outcome) => void
}

/** A running turn. Events dispatched after its end are ignored. */
export interface RunningTurn {
  readonly identity: TurnIdentity
  readonly dispatch: (event: TurnEvent) => void
  readonly state: () => Turn
  readonly ended: Promise<Outcome>
}

/** Most turns have fewer messages than this; for the others the whole session is read. */
const READ_LAST = 100

export const runTurn = (options: TurnOptions): RunningTurn => {
  const { client, clock, log, posting } = options
  const { identity } = options.turn
  let turn = options.turn
  const timers = createTimers<TimerName>(clock.after)
  const ended = Promise.withResolvers<Outcome>()

  const dispatch = (event: TurnEvent): void => {
    const [next, effects] = step(turn, event, clock.now())
    if (next === turn) return
    turn = next
    for (const effect of effects) perform(effect)
    options.onChange(running)
    for (const effect of effects) if (effect.do === "ended") end(effect.outcome)
  }

  const perform = (effect: Effect): void => {
    switch (effect.do) {
      case "send":
        return options.send(effect.frame)
      case "post":
        return post(effect.model)
      case "read":
        return read(effect.why, effect.children)
      case "abort":
        return inBackground("abort", client.abort(identity.agentSessionId))
      case "reply-question":
        return inBackground("answer", client.replyQuestion(effect.requestId, effect.answers))
      case "reject-question":
        return inBackground("reject", client.rejectQuestion(effect.requestId))
      case "reply-permission":
        return inBackground("permit", client.replyPermission(effect.permissionId, effect.reply))
      case "timer":
        return timers.arm(effect.name, effect.ms, () =>
          dispatch({ type: "timer", name: effect.name }),
        )
      case "ended":
        return timers.cancelAll()
    }
  }

  const end = (outcome: Outcome): void => {
    const reason = "error" in outcome ? { error: outcome.error } : {}
    log.info("turn.ended", { turnId: identity.turnId, outcome: outcome.type, ...reason })
    ended.resolve(outcome)
    options.onEnded(outcome)
  }

  const post = (model: string | undefined): void => {
    const ref = parseModel(model ?? "")
    const call: Promise<unknown> =
      posting.kind === "prompt"
        ? client.prompt(identity.agentSessionId, { ...posting.body, ...(ref && { model: ref }) })
        : client.command(identity.agentSessionId, {
            ...posting.body,
            ...(ref && model && { model }),
          })
    call.catch((error: unknown) =>
      dispatch({
        type: "post-failed",
        error: describeError(error),
        definite: error instanceof AgentCallError && error.isDefinite,
      }),
    )
  }

  const read = (why: ReadReason, children: readonly string[]): void => {
    readSession(why, children).then(
      (snapshot) => dispatch({ type: "read", why, snapshot }),
      (error: unknown) => {
        log.warn("turn.read-failed", { turnId: identity.turnId, why, error: describeError(error) })
        dispatch({ type: "read-failed", why, error: describeError(error) })
      },
    )
  }

  const readSession = async (
    why: ReadReason,
    children: readonly string[],
  ): Promise<SessionSnapshot> => {
    const missedEvents = why === "stream-gap" || why === "resume"
    const [statuses, messages, openRequests, ...ofChildren] = await Promise.all([
      client.statuses(),
      readMessages(),
      missedEvents ? readOpenRequests([identity.agentSessionId, ...children]) : undefined,
      ...children.map((child) => client.messages(child, READ_LAST).catch(() => [])),
    ])
    const status = statuses.get(identity.agentSessionId) ?? { type: "idle" }
    return { status, messages, children: ofChildren.flat(), ...(openRequests && { openRequests }) }
  }

  const readMessages = async (): Promise<readonly StoredMessage[]> => {
    const last = await client.messages(identity.agentSessionId, READ_LAST)
    const isEnough =
      last.length < READ_LAST || last.some(({ message }) => message.id === identity.userMessageId)
    return isEnough ? last : client.messages(identity.agentSessionId)
  }

  const readOpenRequests = async (sessions: readonly string[]) => {
    const [questions, permissions] = await Promise.all([
      client.questions().catch(() => []),
      client.permissions().catch(() => []),
    ])
    const isOurs = (request: { readonly agentSessionId: string }) =>
      sessions.includes(request.agentSessionId)
    return { questions: questions.filter(isOurs), permissions: permissions.filter(isOurs) }
  }

  // The turn does not wait for these calls: their effect arrives on the event stream, or a timer checks for it.
  const inBackground = (what: string, call: Promise<void>): void => {
    call.catch((error: unknown) =>
      log.warn("turn.call-failed", { what, turnId: identity.turnId, error: describeError(error) }),
    )
  }

  const running: RunningTurn = { identity, dispatch, state: () => turn, ended: ended.promise }
  return running
}
