/**
 * The life of the link as a pure machine: when to dial, how long to wait, when to give up. What the socket does is
 * an event, what it is to do is an effect.
 */
import { backoffMs, type BackoffRange } from "../../lib/backoff.ts"

export type LinkState =
  | { readonly name: "dialing"; readonly tries: number; readonly refusals: number }
  | { readonly name: "open"; readonly tries: number; readonly since: number }
  | { readonly name: "waiting"; readonly tries: number; readonly refusals: number }
  /** Another runner has taken this one's place. */
  | { readonly name: "replaced" }
  /** The session agent does not want this runner: a wrong token, a session that is gone. */
  | { readonly name: "refused" }
  | { readonly name: "stopped" }

export type LinkEvent =
  | { readonly type: "opened"; readonly at: number }
  | { readonly type: "closed"; readonly code: number; readonly reason: string; readonly at: number }
  /** The upgrade was answered by an HTTP status instead. */
  | { readonly type: "refused"; readonly status: number }
  /** No connection came about, or an open one turned out to be dead. */
  | { readonly type: "failed"; readonly error: string; readonly at: number }
  | { readonly type: "retry" }
  | { readonly type: "stop" }

export type LinkEffect =
  | { readonly do: "dial" }
  | { readonly do: "wait"; readonly ms: number; readonly why: string }
  | { readonly do: "drop" }
  /** The link is over for good; `code` is the process's exit code. */
  | { readonly do: "end"; readonly code: 0 | 3; readonly why: string }

export interface LinkPolicy {
  readonly backoff: BackoffRange
  /** A connection that held this long was a good one: the next failure starts from the shortest wait. */
  readonly stableMs: number
  /** This many refusals in a row mean that asking again is of no use. */
  readonly maxRefusals: number
}

export const defaultLinkPolicy: LinkPolicy = {
  backoff: { min: 1000, max: 30_000 },
  stableMs: 10_000,
  maxRefusals: 5,
}

const REPLACED = "Replaced by new runner connection"
const FINAL_REASONS = ["Session terminated", "Session hibernating", "Sandbox already exited"]

/** Statuses that say "not you": repeating the same question does not change them. 503 is "not yet". */
const REFUSALS = new Set([401, 403, 404, 410])

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
    return isFinal(state) ? same : [{ name: "stopped" }, [{ do: "drop" }]]
  }
  switch (state.name) {
    case "dialing":
      if (event.type === "opened")
        return [{ name: "open", tries: state.tries, since: event.at }, []]
      if (event.type === "refused") return onRefused(state, event.status, policy, random)
      if (event.type === "closed" && event.reason.includes(REPLACED)) return replaced
      if (event.type === "closed")
        return retryLater(state.tries, "closed before it opened", policy, random)
      if (event.type === "failed") return retryLater(state.tries, event.error, policy, random)
      return same
    case "open": {
      if (event.type !== "closed" && event.type !== "failed") return same
      const tries = event.at - state.since >= policy.stableMs ? 0 : state.tries
      if (event.type === "failed") return retryLater(tries, event.error, policy, random)
      if (event.code === 1000 && event.reason.includes(REPLACED)) return replaced
      if (FINAL_REASONS.some((reason) => event.reason.includes(reason))) {
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
  const why = `the session agent answered HTTP ${status}`
  if (!REFUSALS.has(status)) return retryLater(state.tries, why, policy, random)
  const refusals = state.refusals + 1
  if (refusals >= policy.maxRefusals) {
    const told = `${why} ${refusals} times in a row: is RUNNER_TOKEN right, does the session still exist?`
    return [{ name: "refused" }, [{ do: "end", code: 3, why: told }]]
  }
  return retryLater(state.tries, why, policy, random, refusals)
}

const retryLater = (
  tries: number,
  why: string,
  policy: LinkPolicy,
  random: number,
  refusals = 0,
): readonly [LinkState, readonly LinkEffect[]] => [
  { name: "waiting", tries: tries + 1, refusals },
  [{ do: "wait", ms: backoffMs(tries, policy.backoff, random), why }],
]
