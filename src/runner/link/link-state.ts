/**
 * The link as a pure state machine: when to connect, how long to wait between attempts, when to give up. The socket's
 * events come in, effects go out.
 */
import { backoffMs } from "../../lib/backoff.ts"
import { closeReasonOf } from "../../wire/close-reasons.ts"
import { dialLimitMs, retryRange, type RetryPace } from "./retry-pace.ts"

/** The failed attempts since the connection was lost, or since the start. */
interface Attempts {
  readonly tries: number
  /** When the connection was lost, or the first attempt failed. */
  readonly lostAt: number
  /** The last attempts that were refused, and those that were not answered. */
  readonly refusals: number
  readonly unanswered: number
}

export type LinkState =
  | { readonly name: "dialing"; readonly before: Attempts | undefined }
  /** `isWelcome`: the session agent has accepted this connection with a `welcome`. */
  | {
      readonly name: "open"
      readonly before: Attempts | undefined
      readonly since: number
      readonly isWelcome: boolean
    }
  | { readonly name: "waiting"; readonly before: Attempts }
  /** Another runner has connected to the session. */
  | { readonly name: "replaced" }
  /** The session agent refuses this runner: the token is wrong or the session no longer exists. */
  | { readonly name: "refused" }
  | { readonly name: "stopped" }

export type LinkEvent =
  | { readonly type: "opened"; readonly at: number }
  /** The session agent has sent its `welcome`. */
  | { readonly type: "welcomed" }
  | { readonly type: "closed"; readonly code: number; readonly reason: string; readonly at: number }
  /** The WebSocket upgrade was refused with an HTTP status. */
  | { readonly type: "refused"; readonly status: number; readonly at: number }
  /** The connection could not be opened, or an open one is dead. */
  | { readonly type: "failed"; readonly error: string; readonly at: number }
  /** The attempt to connect took too long. */
  | { readonly type: "unanswered"; readonly withinMs: number; readonly at: number }
  | { readonly type: "retry" }
  /** Retry now: earlier attempts tell nothing about this one, because the sandbox was frozen or restored. */
  | { readonly type: "redial" }
  | { readonly type: "stop" }

export type LinkEffect =
  /** Opens a connection, and gives up after `withinMs`. */
  | { readonly do: "dial"; readonly withinMs: number }
  | { readonly do: "wait"; readonly ms: number; readonly why: string }
  | { readonly do: "close" }
  /** The link has ended and will not reconnect; `code` is the exit code of the process. */
  | { readonly do: "end"; readonly code: 0 | 3; readonly why: string }

export interface LinkPolicy {
  readonly pace: RetryPace
  /** A session agent that sends no `welcome`: after a connection of this length the backoff starts from its minimum. */
  readonly stableMs: number
  /** After this many refusals in a row the link gives up. */
  readonly maxRefusals: number
}

export const linkPolicy = (pace: RetryPace): LinkPolicy => ({
  pace,
  stableMs: 10_000,
  maxRefusals: 5,
})

/** Statuses that a retry does not change. Others, such as 503, may change and are retried without limit. */
const REFUSALS = new Set([401, 403, 404, 410])
/** The wait after a refusal is doubled this often: the last of five attempts is several seconds after the first. */
const SLOWER_AFTER_REFUSAL = 2
const MAX_WAIT_AFTER_REFUSAL_MS = 8_000

export const firstDial = ({ pace }: LinkPolicy): readonly [LinkState, readonly LinkEffect[]] => [
  { name: "dialing", before: undefined },
  [{ do: "dial", withinMs: pace.maxDialMs }],
]

export const stepLink = (
  state: LinkState,
  event: LinkEvent,
  policy: LinkPolicy,
  random: number,
): readonly [LinkState, readonly LinkEffect[]] => {
  const same = [state, []] as const
  if (event.type === "stop") {
    return isFinal(state) ? same : [{ name: "stopped" }, [{ do: "close" }]]
  }
  switch (state.name) {
    case "dialing": {
      const { before } = state
      if (event.type === "opened")
        return [{ name: "open", before, since: event.at, isWelcome: false }, []]
      if (event.type === "refused") return onRefused(before, event, policy, random)
      if (event.type === "closed" && closeReasonOf(event.reason) === "replaced") return replaced
      if (event.type === "closed") {
        const why = "the connection was closed before it opened"
        return retryLater(before, { ...event, why }, policy, random)
      }
      if (event.type === "failed")
        return retryLater(before, { ...event, why: event.error }, policy, random)
      if (event.type !== "unanswered") return same
      const why = `no connection within ${event.withinMs} ms`
      const unanswered = (before?.unanswered ?? 0) + 1
      return retryLater(before, { ...event, why, unanswered }, policy, random)
    }
    case "open": {
      if (event.type === "welcomed") return [{ ...state, isWelcome: true }, []]
      if (event.type !== "closed" && event.type !== "failed") return same
      // A peer that accepts connections and ends them before its `welcome` counts as one that cannot be reached.
      const isStable = state.isWelcome || event.at - state.since >= policy.stableMs
      const before = isStable ? undefined : state.before
      if (event.type === "failed")
        return retryLater(before, { ...event, why: event.error }, policy, random)
      const reason = closeReasonOf(event.reason)
      if (reason === "replaced" && event.code === 1000) return replaced
      if (reason !== undefined && reason !== "replaced") {
        return [{ name: "stopped" }, [{ do: "end", code: 0, why: event.reason }]]
      }
      const why = `closed with ${event.code}${event.reason ? ` ${event.reason}` : ""}`
      return retryLater(before, { ...event, why }, policy, random)
    }
    case "waiting": {
      if (event.type === "redial") return firstDial(policy)
      if (event.type !== "retry") return same
      const { before } = state
      const withinMs = dialLimitMs(policy.pace, before.unanswered)
      return [{ name: "dialing", before }, [{ do: "dial", withinMs }]]
    }
    default:
      return same
  }
}

export const isFinal = (state: LinkState): boolean =>
  state.name === "replaced" || state.name === "refused" || state.name === "stopped"

const replaced = [
  { name: "replaced" },
  [{ do: "end", code: 0, why: "another runner has connected to this session" }],
] as const satisfies readonly [LinkState, readonly LinkEffect[]]

const onRefused = (
  before: Attempts | undefined,
  { status, at }: { readonly status: number; readonly at: number },
  policy: LinkPolicy,
  random: number,
): readonly [LinkState, readonly LinkEffect[]] => {
  const why = `the session agent responded with HTTP ${status}`
  if (!REFUSALS.has(status)) return retryLater(before, { why, at }, policy, random)
  const refusals = (before?.refusals ?? 0) + 1
  if (refusals >= policy.maxRefusals) {
    const advice = "check RUNNER_TOKEN and that the session still exists"
    const details = `${why} ${refusals} times in a row: ${advice}`
    return [{ name: "refused" }, [{ do: "end", code: 3, why: details }]]
  }
  return retryLater(before, { why, at, refusals }, policy, random)
}

interface Failure {
  readonly why: string
  readonly at: number
  readonly refusals?: number
  readonly unanswered?: number
}

const retryLater = (
  before: Attempts | undefined,
  { why, at, refusals = 0, unanswered = 0 }: Failure,
  { pace }: LinkPolicy,
  random: number,
): readonly [LinkState, readonly LinkEffect[]] => {
  const { tries, lostAt } = before ?? { tries: 0, lostAt: at }
  const ms =
    refusals === 0
      ? backoffMs(tries, retryRange(pace, at - lostAt), random)
      : backoffMs(
          tries + SLOWER_AFTER_REFUSAL,
          { min: pace.backoff.min, max: Math.min(pace.backoff.max, MAX_WAIT_AFTER_REFUSAL_MS) },
          random,
        )
  return [
    { name: "waiting", before: { tries: tries + 1, lostAt, refusals, unanswered } },
    [{ do: "wait", ms, why }],
  ]
}
