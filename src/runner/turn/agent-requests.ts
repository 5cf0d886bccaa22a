/** Questions and permission requests of the agent, from its own session or a sub-agent's. Pure. */
import type { AgentEvent } from "../opencode/events/events.ts"
import type { Draft } from "./draft.ts"
import { onPermission } from "./permissions.ts"
import { onQuestion, onQuestionClosed } from "./questions.ts"

type RequestEvent = Extract<AgentEvent, { type: "question" | "question-closed" | "permission" }>

export const onAgentRequest = (turn: Draft, event: RequestEvent): void => {
  switch (event.type) {
    case "question":
      return onQuestion(turn, event)
    case "question-closed":
      return onQuestionClosed(turn, event.requestId)
    case "permission":
      return onPermission(turn, event)
  }
}
