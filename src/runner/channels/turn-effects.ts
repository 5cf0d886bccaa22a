/** Carries out what a turn asks for, and brings back what came of it as the turn's next events. */
import { AgentCallError, type AgentClient, type CommandBody } from "../opencode/client/client.ts"
import { parseModel } from "../opencode/config/models.ts"
import type { PromptBody } from "../opencode/client/types.ts"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import type { OutboundFrame } from "../../wire/frames/index.ts"
import { step } from "../turn/step.ts"
import type {
  Effect,
  Outcome,
  ReadReason,
  SessionSnapshot,
  StoredMessage,
  Turn,
  TurnEvent,
  TurnIdentity,
} from "../turn/turn.ts"

/** What is given to OpenCode: the same each time, but for the model. */
export type Posting =
  | { readonly kind: "prompt"; readonly body: PromptBody }
  | { readonly kind: "command"; readonly body: CommandBody }

export interface TurnOptions {
  /** Where it stands: new, or as an earlier life of the runner left it. */
  readonly turn: Turn
  readonly posting: Posting
  readonly client: AgentClient
  readonly clock: Clock
  readonly log: Log
  readonly send: (frame: OutboundFrame) => void
  /** Called after every event that changed it. */
  readonly onChange: (turn: RunningTurn) => void
  readonly onEnded: (outcome: Outcome) => void
}

/** A turn that runs. What is told to it after its end changes nothing. */
export interface RunningTurn {
  readonly identity: TurnIdentity
  readonly tell: (event: TurnEvent) => void
  readonly now: () => Turn
  readonly ended: Promise<Outcome>
}

/** Most sessions end in fewer messages after the prompt; those with more are read whole. */
const READ_LAST = 100

export const runTurn = (options: TurnOptions): RunningTurn => {
  const { client, clock, log, posting } = options
  const { identity } = options.turn
  let turn = options.turn
  const timers = new Map<string, () => void>()
  const ended = Promise.withResolvers<Outcome>()

  const tell = (event: TurnEvent): void => {
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
        return inBackground("abort", client.abort(identity.sessionId))
      case "reply-question":
        return inBackground("answer", client.replyQuestion(effect.requestId, effect.answers))
      case "reject-question":
        return inBackground("reject", client.rejectQuestion(effect.requestId))
      case "reply-permission":
        return inBackground("permit", client.replyPermission(effect.permissionId, effect.reply))
      case "timer":
        timers.get(effect.name)?.()
        timers.set(
          effect.name,
          clock.after(effect.ms, () => tell({ type: "timer", name: effect.name })),
        )
        return
      case "ended":
        for (const cancel of timers.values()) cancel()
        return
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
        ? client.prompt(identity.sessionId, { ...posting.body, ...(ref && { model: ref }) })
        : client.command(identity.sessionId, { ...posting.body, ...(ref && model && { model }) })
    call.catch((error: unknown) =>
      tell({
        type: "post-failed",
        error: describeError(error),
        definite: error instanceof AgentCallError && error.isDefinite,
      }),
    )
  }

  const read = (why: ReadReason, children: readonly string[]): void => {
    readSession(why, children).then(
      (snapshot) => tell({ type: "read", why, snapshot }),
      (error: unknown) => {
        log.warn("turn.read-failed", { turnId: identity.turnId, why, error: describeError(error) })
        tell({ type: "read-failed", why, error: describeError(error) })
      },
    )
  }

  const readSession = async (
    why: ReadReason,
    children: readonly string[],
  ): Promise<SessionSnapshot> => {
    const missedEvents = why === "gap" || why === "resume"
    const [statuses, messages, asked, ...ofChildren] = await Promise.all([
      client.statuses(),
      readMessages(),
      missedEvents ? readAsked([identity.sessionId, ...children]) : undefined,
      ...children.map((child) => client.messages(child, READ_LAST).catch(() => [])),
    ])
    const status = statuses.get(identity.sessionId) ?? { type: "idle" }
    return { status, messages, children: ofChildren.flat(), ...(asked && { asked }) }
  }

  const readMessages = async (): Promise<readonly StoredMessage[]> => {
    const last = await client.messages(identity.sessionId, READ_LAST)
    const isEnough =
      last.length < READ_LAST || last.some(({ message }) => message.id === identity.userMessageId)
    return isEnough ? last : client.messages(identity.sessionId)
  }

  const readAsked = async (sessions: readonly string[]) => {
    const [questions, permissions] = await Promise.all([
      client.questions().catch(() => []),
      client.permissions().catch(() => []),
    ])
    const isOurs = ({ agentSessionId }: { readonly agentSessionId: string }) =>
      sessions.includes(agentSessionId)
    return { questions: questions.filter(isOurs), permissions: permissions.filter(isOurs) }
  }

  // The turn does not wait for these: what they change comes back on the event stream, or a timer looks for it.
  const inBackground = (what: string, call: Promise<void>): void => {
    call.catch((error: unknown) =>
      log.warn("turn.call-failed", { what, turnId: identity.turnId, error: describeError(error) }),
    )
  }

  const running: RunningTurn = { identity, tell, now: () => turn, ended: ended.promise }
  return running
}
