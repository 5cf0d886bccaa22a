/**
 * The link as a pure state machine: when to connect, how long to wait between attempts, when to give up. The socket's
 * events come in, effects go out.
 */
import { backoffMs, type BackoffRange } from "../../lib/backoff.ts"
import { closeReasonOf } from "../../wire/close-reasons.ts"

export type LinkState =
  | { readonly name: "dialing"; readonly tries: number; readonly refusals: number }
  /** `isWelcome`: the session agent has accepted this connection with a `welcome`. */
  | {
      readonly name: "open"
      readonly tries: number
      readonly since: number
      readonly isWelcome: boolean
    }
  | { readonly name: "waiting"; readonly tries: number; readonly refusals: number }
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
  | { readonly type: "refused"; readonly status: number }
  /** The connection could not be opened, or an open one is dead. */
  | { readonly type: "failed"; readonly error: string; readonly at: number }
  | { readonly type: "retry" }
  | { readonly type: "stop" }

export type LinkEffect =
  | { readonly do: "dial" }
  | { readonly do: "wait"; readonly ms: number; readonly why: string }
  | { readonly do: "close" }
  /** The link has ended and will not reconnect; `code` is the exit code of the process. */
  | { readonly do: "end"; readonly code: 0 | 3; readonly why: string }

export interface LinkPolicy {
  readonly backoff: BackoffRange
  /** A session agent that sends no `welcome`: after a connection of this length the backoff starts from its minimum. */
  readonly stableMs: number
  /** After this many refusals in a row the link gives up. */
  readonly maxRefusals: number
}

export const defaultLinkPolicy: LinkPolicy = {
  backoff: { min: 250, max: 30_000 },
  stableMs: 10_000,
  maxRefusals: 5,
}

/** Statuses that a retry does not change. Others, such as 503, may change and are retried without limit. */
const REFUSALS = new Set([401, 403, 404, 410])
/** The wait after a refusal is doubled this often: the last of five attempts is several seconds after the first. */
const SLOWER_AFTER_REFUSAL = 2

export const firstDial: readonly [LinkState, readonly LinkEffect[]] = [
  { name: "dialing", tries: 0, refusals: 0 },
  [{ do: "dial" }],
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
    case "dialing":
      if (event.type === "opened")
        return [{ name: "open", tries: state.tries, since: event.at, isWelcome: false }, []]
      if (event.type === "refused") return onRefused(state, event.status, policy, random)
      if (event.type === "closed" && closeReasonOf(event.reason) === "replaced") return replaced
      if (event.type === "closed")
        return retryLater(state.tries, "the connection was closed before it opened", policy, random)
      if (event.type === "failed") return retryLater(state.tries, event.error, policy, random)
      return same
    case "open": {
      if (event.type === "welcomed") return [{ ...state, isWelcome: true }, []]
      if (event.type !== "closed" && event.type !== "failed") return same
      // A peer that accepts connections and ends them before its `welcome` counts as one that cannot be reached.
      const isStable = state.isWelcome || event.at - state.since >= policy.stableMs
      const tries = isStable ? 0 : state.tries
      if (event.type === "failed") return retryLater(tries, event.error, policy, random)
      const reason = closeReasonOf(event.reason)
      if (reason === "replaced" && event.code === 1000) return replaced
      if (reason !== undefined && reason !== "replaced") {
        return [{ name: "stopped" }, [{ do: "end", code: 0, why: event.reason }]]
      }
      const why = `closed with ${event.code}${event.reason ? ` ${event.reason}` : ""}`
      return retryLater(tries, why, policy, random)
    }
    case "waiting":
      if (event.type !== "retry") return same
      return [{ name: "dialing", tries: state.tries, refusals: state.refusals }, [{ do: "dial" }]]
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
  state: { readonly tries: number; readonly refusals: number },
  status: number,
  policy: LinkPolicy,
  random: number,
): readonly [LinkState, readonly LinkEffect[]] => {
  const why = `the session agent responded with HTTP ${status}`
  if (!REFUSALS.has(status)) return retryLater(state.tries, why, policy, random)
  const refusals = state.refusals + 1
  if (refusals >= policy.maxRefusals) {
    const advice = "check RUNNER_TOKEN and that the session still exists"
    const details = `${why} ${refusals} times in a row: ${advice}`
    return [{ name: "refused" }, [{ do: "end", code: 3, why: details }]]
  }
  return retryLater(state.tries, why, policy, random, { refusals, slower: SLOWER_AFTER_REFUSAL })
}

const retryLater = (
  tries: number,
  why: string,
  policy: LinkPolicy,
  random: number,
  { refusals = 0, slower = 0 } = {},
): readonly [LinkState, readonly LinkEffect[]] => [
  { name: "waiting", tries: tries + 1, refusals },
  [{ do: "wait", ms: backoffMs(tries + slower, policy.backoff, random), why }],
]
