/** Failover: when and how a prompt is posted again with the next model of its chain. Never after a tool has run. Pure. */
import type { AgentError } from "../opencode/events/events.ts"
import { closeAttempt } from "./close-attempt.ts"
import { promptAddress, type Draft, send, setStatus, setTimer } from "./draft.ts"
import { post } from "./posting.ts"
import type { Outcome, Turn } from "./turn.ts"

/** Another model is left, and no tool has run that would run twice. */
export const canSwitch = (turn: Draft): boolean =>
  !turn.toolRan &&
  turn.steeredBy === undefined &&
  turn.stopped?.by !== "user" &&
  turn.attempt + 1 < turn.settings.models.length

/** False when the provider refuses the prompt itself, and when the total time has run out. */
export const mayOtherModelSucceed = (turn: Draft): boolean => {
  if (turn.stopped?.by === "failover") return true
  // A model that never responded may be down; one that stopped in mid-answer would only be repeated.
  if (turn.stopped?.by === "budget") return !turn.modelResponded
  const error = turn.messages.at(-1)?.error ?? (turn.messages.length === 0 ? turn.error : undefined)
  return error ? isProviderError(error) : turn.messages.at(-1)?.open !== true
}

/** Rate limit, credentials, billing, unknown model, overload: failures of the provider, not of the prompt. */
const PROVIDER_STATUSES = new Set([401, 402, 403, 404, 408, 409, 429])

const isProviderError = ({ name, statusCode, isRetryable }: AgentError): boolean => {
  if (name === "ProviderAuthError" || name === "ProviderModelNotFoundError") return true
  if (statusCode === undefined) return name === "UnknownError" || isRetryable === true
  return isRetryable === true || PROVIDER_STATUSES.has(statusCode) || statusCode >= 500
}

/** Posts the same body with the same ids and the next model, so OpenCode's history contains the prompt once. */
export const switchModel = (turn: Draft, reason: string): void => {
  const fromModel = modelOf(turn)
  closeAttempt(turn, { type: "error", error: reason })
  turn.failures = [...turn.failures, { model: fromModel, error: reason }]
  turn.discardedMessages = [...turn.discardedMessages, ...turn.messages.map(({ id }) => id)]
  turn.attempt += 1
  const toModel = modelOf(turn)
  Object.assign(turn, freshAttempt)
  send(turn, { type: "model-switched", fromModel, toModel, reason, ...promptAddress(turn) })
  setStatus(turn, "thinking")
  post(turn)
  setTimer(turn, "first-event", turn.settings.budgets.firstEvent)
}

const freshAttempt = {
  phase: "asked",
  created: false,
  messages: [],
  texts: [],
  tools: [],
  outputs: [],
  error: undefined,
  lastRetry: undefined,
  stopped: undefined,
  postCount: 0,
  openReads: 0,
  modelResponded: false,
} as const satisfies Partial<Turn>

const modelOf = (turn: Draft): string => turn.settings.models[turn.attempt] ?? "the default model"

/** One error with the models and errors of all attempts; with a single attempt, that error and why there was no other. */
export const listAttempts = (turn: Draft, error: string): Outcome => {
  if (turn.failures.length === 0) return { type: "error", error: error + toolNote(turn) }
  const attempts = [...turn.failures, { model: modelOf(turn), error }]
  const list = attempts.map((attempt) => `${attempt.model}: ${attempt.error}`).join("; ")
  return { type: "error", error: `all models failed: ${list}${toolNote(turn)}` }
}

const toolNote = (turn: Draft): string =>
  turn.toolRan && turn.attempt + 1 < turn.settings.models.length
    ? " (not retried with another model: tools have already run)"
    : ""
