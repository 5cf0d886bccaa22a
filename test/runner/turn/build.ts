/** Builders of OpenCode's events, and a turn that a test drives event by event. */
import type {
  AgentError,
  AgentEvent,
  AgentMessage,
  AgentPart,
  AgentToolPart,
  SessionStatus,
} from "../../../src/runner/opencode/events/events.ts"
import type { Outbound, OutboundFrame } from "../../../src/wire/frames/index.ts"
import { step } from "../../../src/runner/turn/step.ts"
import {
  type Effect,
  newTurn,
  type SessionSnapshot,
  type Turn,
  type TurnEvent,
  type TurnSettings,
} from "../../../src/runner/turn/turn.ts"

export const SESSION = "ses_1"
export const PROMPT = "msg_prompt"

export const user = (id = PROMPT, createdAt = 1000): AgentMessage => ({
  id,
  agentSessionId: SESSION,
  role: "user",
  createdAt,
  completed: false,
  isSummary: false,
})

export const assistant = (id: string, more: Partial<AgentMessage> = {}): AgentMessage => ({
  id,
  agentSessionId: SESSION,
  role: "assistant",
  parentId: PROMPT,
  createdAt: 2000,
  completed: false,
  isSummary: false,
  ...more,
})

export const done = (id: string, more: Partial<AgentMessage> = {}): AgentMessage =>
  assistant(id, { completed: true, finish: "stop", ...more })

export const textPart = (messageId: string, id: string, text = "", ended = false): AgentPart => ({
  id,
  messageId,
  agentSessionId: SESSION,
  kind: "text",
  text,
  ended,
  synthetic: false,
})

export const stepStart = (messageId: string, id: string): AgentPart => ({
  id,
  messageId,
  agentSessionId: SESSION,
  kind: "other",
  type: "step-start",
})

export const toolPart = (
  messageId: string,
  callId: string,
  status: "pending" | "running" | "completed" | "error",
): AgentToolPart => ({
  id: `prt_${callId}`,
  messageId,
  agentSessionId: SESSION,
  kind: "tool",
  callId,
  tool: "bash",
  status,
  ...(status === "completed" && { output: "out" }),
})

type SessionEvent = Exclude<AgentEvent, { type: "connected" | "heartbeat" }>

export const events = {
  message: (message: AgentMessage): SessionEvent => ({
    type: "message",
    agentSessionId: message.agentSessionId,
    message,
  }),
  part: (part: AgentPart): SessionEvent => ({
    type: "part",
    agentSessionId: part.agentSessionId,
    part,
  }),
  delta: (messageId: string, partId: string, delta: string): SessionEvent => ({
    type: "delta",
    agentSessionId: SESSION,
    messageId,
    partId,
    delta,
  }),
  idle: (): SessionEvent => ({ type: "idle", agentSessionId: SESSION }),
  error: (error: AgentError): SessionEvent => ({ type: "error", agentSessionId: SESSION, error }),
  retry: (attempt: number, next: number, message = "busy"): SessionEvent => ({
    type: "status",
    agentSessionId: SESSION,
    status: { type: "retry", attempt, next, message },
  }),
}

/** A started turn that a test dispatches events to, with all effects that it returned. */
export const start = (settings: Partial<TurnSettings> = {}) => {
  let turn: Turn = newTurn(
    {
      promptId: "p1",
      turnId: "t1",
      channelType: "web",
      channelId: "default",
      agentSessionId: SESSION,
      userMessageId: PROMPT,
    },
    settings,
  )
  let now = 10_000
  const effects: Effect[] = []
  const dispatch = (event: TurnEvent): readonly Effect[] => {
    const [next, stepEffects] = step(turn, event, now)
    turn = next
    effects.push(...stepEffects)
    return stepEffects
  }
  const driver = {
    turn: () => turn,
    effects,
    dispatch,
    wait: (ms: number) => void (now += ms),
    receive: (...received: readonly SessionEvent[]) => {
      for (const event of received) dispatch({ type: "agent", event })
    },
    read: (
      messages: SessionSnapshot["messages"],
      why: "end" | "post-check" | "recheck" | "stream-gap" | "resume" = "end",
      status: SessionStatus = { type: "idle" },
    ) => dispatch({ type: "read", why, snapshot: { status, messages, children: [] } }),
    frames: (): readonly OutboundFrame[] =>
      effects.flatMap((effect) => (effect.do === "send" ? [effect.frame] : [])),
    sent: <Type extends OutboundFrame["type"]>(type: Type): readonly Outbound<Type>[] =>
      driver.frames().filter((frame): frame is Outbound<Type> => frame.type === type),
    requested: (name: Effect["do"]): readonly Effect[] =>
      effects.filter((effect) => effect.do === name),
    outcome: () => effects.find((effect) => effect.do === "ended")?.outcome,
  }
  dispatch({ type: "start" })
  return driver
}
