/** The turn while one event is worked on: fields may be set, effects pile up; only `step` makes one and lets it out. */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import { type Effect, type ReadReason, type TimerName, type Turn, turnIdOf } from "./turn.ts"

export type Draft = { -readonly [Key in keyof Turn]: Turn[Key] } & { readonly effects: Effect[] }

export const address = ({ identity }: Draft) => ({
  messageId: identity.promptId,
  channelType: identity.channelType,
  channelId: identity.channelId,
})

/** What every frame about the answer itself carries. */
export const ofTurn = (turn: Draft) => ({ turnId: turnIdOf(turn), ...address(turn) })

export const send = (turn: Draft, frame: OutboundFrame): void => {
  turn.effects.push({ do: "send", frame })
}

export const read = (turn: Draft, why: ReadReason): void => {
  turn.effects.push({ do: "read", why, children: turn.children })
}

export const timer = (turn: Draft, name: TimerName, ms: number): void => {
  turn.effects.push({ do: "timer", name, ms })
}

/** The message appears with the first thing there is to show of it. */
export const create = (turn: Draft): void => {
  if (turn.created) return
  turn.created = true
  const { sessionId } = turn.identity
  send(turn, { type: "message.create", opencodeSessionId: sessionId, ...ofTurn(turn) })
}

/** Status is the turn's own, never OpenCode's: that says idle several times in the middle of one. */
export const setStatus = (turn: Draft, status: Turn["status"], detail?: string): void => {
  if (turn.status === status && turn.statusDetail === detail) return
  turn.status = status
  turn.statusDetail = detail
  const extra = detail === undefined ? {} : { detail }
  send(turn, { type: "agentStatus", status, ...extra, ...address(turn) })
}
