/** The state machine of one service: start, readiness, restart with backoff after a crash, failure after repeated crashes. */
import { type BackoffRange, backoffMs } from "../../lib/backoff.ts"

export type ServiceState =
  | { readonly phase: "idle" }
  | { readonly phase: "starting" | "ready"; readonly tries: Tries; readonly startedAt: number }
  | { readonly phase: "resting"; readonly tries: Tries; readonly why: string }
  | { readonly phase: "failed"; readonly why: string }
  /** Not installed, which is not an error. */
  | { readonly phase: "off"; readonly why: string }
  | { readonly phase: "stopped" }

interface Tries {
  /** Consecutive crashes, each before `steadyMs`. */
  readonly failures: number
  readonly restarts: number
}

export type ServiceEvent =
  | { readonly type: "start"; readonly at: number }
  | { readonly type: "missing"; readonly program: string }
  | { readonly type: "answers" }
  /** It runs and is not ready in time. It is ended, and then `exited` follows. */
  | { readonly type: "late" }
  | { readonly type: "exited"; readonly at: number; readonly why: string }
  /** It has ended its work: it is not restarted. */
  | { readonly type: "finished" }
  | { readonly type: "rested"; readonly at: number }
  | { readonly type: "stop" }

export type ServiceEffect =
  | { readonly do: "spawn" }
  | { readonly do: "end" }
  | { readonly do: "rest"; readonly ms: number }

export interface ServicePolicy {
  readonly backoff: BackoffRange
  /** After running this long it counts as healthy: its next crash is the first again. */
  readonly steadyMs: number
  readonly maxFailures: number
}

export const defaultServicePolicy: ServicePolicy = {
  backoff: { min: 250, max: 30_000 },
  steadyMs: 30_000,
  maxFailures: 8,
}

export const idleService: ServiceState = { phase: "idle" }

type Step = readonly [ServiceState, readonly ServiceEffect[]]

export const stepService = (
  state: ServiceState,
  event: ServiceEvent,
  policy: ServicePolicy,
  random: number,
): Step => {
  switch (event.type) {
    case "start":
      if (state.phase !== "idle" && state.phase !== "stopped") return [state, []]
      return started(event.at, { failures: 0, restarts: 0 })
    case "missing":
      return [{ phase: "off", why: `${event.program} is not installed` }, []]
    case "answers":
      return [state.phase === "starting" ? { ...state, phase: "ready" } : state, []]
    case "late":
      return [state, state.phase === "starting" ? [{ do: "end" }] : []]
    case "exited":
      return exited(state, event, policy, random)
    case "finished":
      return [
        state.phase === "starting" || state.phase === "ready" ? { phase: "stopped" } : state,
        [],
      ]
    case "rested":
      if (state.phase !== "resting") return [state, []]
      return started(event.at, { ...state.tries, restarts: state.tries.restarts + 1 })
    case "stop":
      return [{ phase: "stopped" }, [{ do: "end" }]]
  }
}

const started = (at: number, tries: Tries): Step => [
  { phase: "starting", tries, startedAt: at },
  [{ do: "spawn" }],
]

const exited = (
  state: ServiceState,
  { at, why }: { readonly at: number; readonly why: string },
  policy: ServicePolicy,
  random: number,
): Step => {
  if (state.phase !== "starting" && state.phase !== "ready") return [state, []]
  const steady = at - state.startedAt >= policy.steadyMs
  const failures = steady ? 1 : state.tries.failures + 1
  if (failures >= policy.maxFailures) {
    return [{ phase: "failed", why: `failed ${failures} times in a row: ${why}` }, []]
  }
  const ms = backoffMs(failures - 1, policy.backoff, random)
  return [{ phase: "resting", tries: { ...state.tries, failures }, why }, [{ do: "rest", ms }]]
}
