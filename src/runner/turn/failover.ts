/** Another model: when a prompt may be given to the next of its chain, and how. Never after a tool has run. Pure. */
import type { AgentError } from "../opencode/events/events.ts"
import { closeAttempt } from "./close-attempt.ts"
import { address, type Draft, send, setStatus, timer } from "./draft.ts"
import { post } from "./posting.ts"
import type { Outcome } from "./turn.ts"

/** A model is left, and nothing has been done yet that would be done twice. */
export const canSwitch = (turn: Draft): boolean =>
  !turn.toolRan &&
  turn.overtakenBy === undefined &&
  turn.stopped?.by !== "user" &&
  turn.attempt + 1 < turn.settings.models.length

/** Whether another model might do better: not when the prompt itself is refused, and not when time has run out. */
export const isWorthAnother = (turn: Draft): boolean => {
  if (turn.stopped?.by === "failover") return true
  // Silence from the start is the model's; silence after words is no reason to say them again.
  if (turn.stopped?.by === "budget") return !turn.heard
  const error = turn.messages.at(-1)?.error ?? (turn.messages.length === 0 ? turn.error : undefined)
  return error ? isProviders(error) : turn.messages.at(-1)?.open !== true
}

/** Rate limit, credentials, billing, no such model, overloaded, broken: the provider's, not the prompt's. */
const PROVIDERS_STATUS = new Set([401, 402, 403, 404, 408, 409, 429])

const isProviders = ({ name, statusCode, isRetryable }: AgentError): boolean => {
  if (name === "ProviderAuthError" || name === "ProviderModelNotFoundError") return true
  if (statusCode === undefined) return name === "UnknownError" || isRetryable === true
  return isRetryable === true || PROVIDERS_STATUS.has(statusCode) || statusCode >= 500
}

/** The same prompt, the same ids, the next model: OpenCode's history holds the prompt once. */
export const switchModel = (turn: Draft, reason: string): void => {
  const fromModel = modelOf(turn)
  closeAttempt(turn, { type: "error", error: reason })
  turn.failures = [...turn.failures, { model: fromModel, error: reason }]
  turn.voided = [...turn.voided, ...turn.messages.map(({ id }) => id)]
  turn.attempt += 1
  const toModel = modelOf(turn)
  Object.assign(turn, freshAttempt)
  send(turn, { type: "model-switched", fromModel, toModel, reason, ...address(turn) })
  setStatus(turn, "thinking")
  post(turn)
  timer(turn, "first-event", turn.settings.budgets.firstEvent)
}

const freshAttempt = {
  phase: "asked",
  created: false,
  messages: [],
  texts: [],
  tools: [],
  error: undefined,
  lastRetry: undefined,
  stopped: undefined,
  posts: 0,
  heard: false,
} as const

const modelOf = (turn: Draft): string => turn.settings.models[turn.attempt] ?? "the default model"

/** One error that names every attempt; a single one speaks for itself, and says why it stayed the only one. */
export const listAttempts = (turn: Draft, error: string): Outcome => {
  if (turn.failures.length === 0) return { type: "error", error: error + afterTools(turn) }
  const attempts = [...turn.failures, { model: modelOf(turn), error }]
  const list = attempts.map((attempt) => `${attempt.model}: ${attempt.error}`).join("; ")
  return { type: "error", error: `no model could answer. ${list}${afterTools(turn)}` }
}

const afterTools = (turn: Draft): string =>
  turn.toolRan && turn.attempt + 1 < turn.settings.models.length
    ? " (not given to another model: tools have already run)"
    : ""
