/**
 * The types of the launch state machine, which decides when OpenCode is started, reloaded, stopped and given up.
 * The transitions are in launch-step.ts; supervisor.ts carries out the effects.
 */

/** Identifies one requested configuration; the supervisor keeps the LaunchPlan that belongs to it. */
export interface PlanRef {
  /** Rises with every requested configuration. */
  readonly serial: number
  /** Of the whole plan: equal hashes need no change. */
  readonly hash: string
  /** Of the part that needs a new process when it changes: tool code, environment, version. */
  readonly processHash: string
}

/**
 * `config`: OpenCode is healthy and rejects its configuration. `blocked`: another process holds the port.
 * `exit`: OpenCode exited before it was healthy. `timeout`: it runs and never became healthy.
 * `setup`: it could not be started.
 */
export type FailureKind = "config" | "blocked" | "exit" | "timeout" | "setup"

export type LaunchEvent =
  | { readonly type: "config-requested"; readonly plan: PlanRef }
  | { readonly type: "launched"; readonly plan: PlanRef; readonly adopted: boolean }
  | {
      readonly type: "launch-failed"
      readonly plan: PlanRef
      readonly kind: FailureKind
      readonly error: string
    }
  | { readonly type: "reloaded"; readonly plan: PlanRef }
  | { readonly type: "reload-failed"; readonly plan: PlanRef; readonly error: string }
  /** No turn runs, and none starts until turns are resumed. */
  | { readonly type: "turns-paused" }
  /** The process exited by itself, or stopped responding. */
  | { readonly type: "process-lost"; readonly why: string }
  /** The `stop-process` effect is done: the process and its descendants are gone. */
  | { readonly type: "process-stopped" }
  | { readonly type: "timer"; readonly name: TimerName }
  | { readonly type: "shutdown-requested" }

export type TimerName = "batch" | "pause-deadline" | "backoff"

export type LaunchEffect =
  | { readonly do: "launch"; readonly plan: PlanRef }
  | { readonly do: "reload"; readonly plan: PlanRef }
  | { readonly do: "stop-process"; readonly why: string }
  | { readonly do: "pause-turns" }
  | { readonly do: "set-timer"; readonly name: TimerName; readonly ms: number }
  /** Ends the running turns with the reason. */
  | { readonly do: "report-lost"; readonly why: string }
  /** Every configuration up to the plan's serial is in force. */
  | { readonly do: "report-applied"; readonly plan: PlanRef; readonly restarted: boolean }
  /** Every configuration up to this serial was rejected. */
  | { readonly do: "report-refused"; readonly serial: number; readonly error: string }
  | { readonly do: "report-fatal"; readonly error: string }
  /** The shutdown is complete; no event has an effect any more. */
  | { readonly do: "report-ended" }

export type Phase =
  | { readonly name: "off" }
  /** Waits a moment so that configurations sent in a burst are applied as one. No turn starts meanwhile. */
  | { readonly name: "batching"; readonly areTurnsPaused: boolean }
  | { readonly name: "pausing-turns" }
  | { readonly name: "launching"; readonly plan: PlanRef; readonly restarted: boolean }
  | { readonly name: "reloading"; readonly plan: PlanRef }
  | { readonly name: "up" }
  | { readonly name: "stopping"; readonly next: "launch" | "backoff" | "fatal" | "end" }
  | { readonly name: "backoff" }
  /** Given up: waits for a new configuration. */
  | { readonly name: "fatal" }
  | { readonly name: "ended" }

export interface LaunchState {
  readonly phase: Phase
  readonly requested: PlanRef | undefined
  /** The plan of the process that works; undefined when there is none. */
  readonly running: PlanRef | undefined
  /** The last plan that worked: the fallback when a new one fails. */
  readonly lastWorking: PlanRef | undefined
  readonly launchedAt: number
  /** Times of the failures within the last FAILURE_WINDOW_MS. */
  readonly failures: readonly number[]
}

export interface LaunchLimits {
  /** How long a new configuration waits for running turns before it ends them. */
  readonly pauseTimeoutMs: number
  readonly random: () => number
}

/** `lastWorking`: the plan that was in force when the previous runner ended. */
export const initialLaunchState = (lastWorking?: PlanRef): LaunchState => ({
  phase: { name: "off" },
  requested: undefined,
  running: undefined,
  lastWorking,
  launchedAt: 0,
  failures: [],
})

/** A newer configuration than the one that is being launched or read was requested meanwhile. */
export const isSuperseded = ({ phase, requested }: LaunchState): boolean =>
  "plan" in phase && requested !== undefined && requested.hash !== phase.plan.hash

/** The hashes of the plans that a later effect may name. */
export const plansInUse = ({
  phase,
  requested,
  running,
  lastWorking,
}: LaunchState): ReadonlySet<string> => {
  const plans = [requested, running, lastWorking, "plan" in phase ? phase.plan : undefined]
  return new Set(plans.flatMap((plan) => plan?.hash ?? []))
}
