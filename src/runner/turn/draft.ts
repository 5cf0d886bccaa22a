/** The mutable copy of a turn while `step` handles one event: handlers set fields and collect effects. */
import type { OutboundFrame } from "../../wire/frames/index.ts"
import { type Effect, type ReadReason, type TimerName, type Turn, turnIdOf } from "./turn.ts"

export type Draft = { -readonly [Key in keyof Turn]: Turn[Key] } & { readonly effects: Effect[] }

/** The address fields of frames about the prompt. */
export const promptAddress = ({ identity }: Draft) => ({
  messageId: identity.promptId,
  channelType: identity.channelType,
  channelId: identity.channelId,
})

/** The address fields of frames about the answer. */
export const turnAddress = (turn: Draft) => ({ turnId: turnIdOf(turn), ...promptAddress(turn) })

/** The tool call and the agent session that ask. */
export interface Asker {
  readonly callId?: string
  readonly agentSessionId?: string
}

/** The tool call that asks, and the sub-agent's session if it is not the turn's own. */
export const callAddress = (
  turn: Draft,
  { callId, agentSessionId }: Asker,
): { turnId: string; callId?: string; childSessionId?: string } => ({
  turnId: turnIdOf(turn),
  ...(callId !== undefined && { callId }),
  ...(agentSessionId !== undefined &&
    agentSessionId !== turn.identity.agentSessionId && { childSessionId: agentSessionId }),
})

export const send = (turn: Draft, frame: OutboundFrame): void => {
  turn.effects.push({ do: "send", frame })
}

export const requestRead = (turn: Draft, why: ReadReason): void => {
  turn.effects.push({ do: "read", why, children: turn.children })
}

export const setTimer = (turn: Draft, name: TimerName, ms: number): void => {
  turn.effects.push({ do: "timer", name, ms })
}

/** Called before anything of the answer is sent: the message is created with its first content. */
export const createMessage = (turn: Draft): void => {
  if (turn.created) return
  turn.created = true
  const { agentSessionId } = turn.identity
  send(turn, { type: "message.create", opencodeSessionId: agentSessionId, ...turnAddress(turn) })
}

/** The status of the turn, not of OpenCode, which becomes idle several times within one turn. */
export const setStatus = (turn: Draft, status: Turn["status"], detail?: string): void => {
  if (turn.status === status && turn.statusDetail === detail) return
  turn.status = status
  turn.statusDetail = detail
  const extra = detail === undefined ? {} : { detail }
  send(turn, { type: "agentStatus", status, ...extra, ...promptAddress(turn) })
}
