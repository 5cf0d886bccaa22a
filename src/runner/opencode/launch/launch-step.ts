/** The transitions of the launch state machine: state + event -> state + effects. Pure; timers are effects that return as events. */
import { backoffMs } from "../../../lib/backoff.ts"
import type {
  LaunchEffect,
  LaunchEvent,
  LaunchLimits,
  LaunchState,
  Phase,
  PlanRef,
  TimerName,
} from "./launch-state.ts"

const BATCH_MS = 50
/** This many failures within the window are fatal. */
export const MAX_FAILURES = 5
const FAILURE_WINDOW_MS = 120_000
/** A failure after this much uptime clears the earlier ones. */
export const STABLE_AFTER_MS = 60_000
const BACKOFF = { min: 1000, max: 30_000 }

type Step = readonly [LaunchState, readonly LaunchEffect[]]

export const stepLaunch = (
  state: LaunchState,
  event: LaunchEvent,
  now: number,
  limits: LaunchLimits,
): Step => {
  if (state.phase.name === "ended") return [state, []]
  switch (event.type) {
    case "config-requested":
      return onConfigRequested({ ...state, requested: event.plan })
    case "timer":
      return onTimer(state, event.name, limits)
    case "turns-paused":
      if (state.phase.name === "batching")
        return enter(state, { name: "batching", areTurnsPaused: true })
      return state.phase.name === "pausing-turns" ? applyRequested(state) : [state, []]
    case "launched":
      return onLaunched(state, event.plan, event.adopted, now)
    case "launch-failed":
      return onLaunchFailed(state, event, now, limits)
    case "reloaded":
      return onReloaded(state, event.plan)
    case "reload-failed":
      return onReloadFailed(state, event.plan, event.error)
    case "process-lost":
      return onProcessLost(state, event.why, now)
    case "process-stopped":
      return onProcessStopped(state, limits)
    case "shutdown-requested":
      return onShutdownRequested(state)
  }
}

const enter = (state: LaunchState, phase: Phase, ...effects: readonly LaunchEffect[]): Step => [
  { ...state, phase },
  effects,
]

const withEffectFirst = (first: LaunchEffect, [state, effects]: Step): Step => [
  state,
  [first, ...effects],
]

const onConfigRequested = (state: LaunchState): Step => {
  switch (state.phase.name) {
    case "off":
    case "up":
    case "fatal":
      return reconcile(state)
    case "stopping":
      // A new configuration cancels giving up: it gets its own attempt.
      if (state.phase.next !== "fatal") return [state, []]
      return enter({ ...state, failures: [] }, { name: "stopping", next: "backoff" })
    // Every other phase looks at `requested` when it ends.
    default:
      return [state, []]
  }
}

/** Compares the requested plan with the running one and takes the next step towards it. */
const reconcile = (state: LaunchState): Step => {
  const { requested, running } = state
  if (!requested) return enter(state, { name: running ? "up" : "off" })
  if (running?.hash === requested.hash) {
    const applied = { do: "report-applied", plan: requested, restarted: false } as const
    const isUnreported = running.serial !== requested.serial
    return enter(
      { ...state, running: requested },
      { name: "up" },
      ...(isUnreported ? [applied] : []),
    )
  }
  // At once: a prompt that follows the configuration must run with it.
  const pause: readonly LaunchEffect[] = running ? [{ do: "pause-turns" }] : []
  return enter(state, { name: "batching", areTurnsPaused: false }, ...pause, {
    do: "set-timer",
    name: "batch",
    ms: BATCH_MS,
  })
}

const onTimer = (state: LaunchState, name: TimerName, limits: LaunchLimits): Step => {
  const { phase } = state
  if (name === "batch" && phase.name === "batching") {
    if (!state.running) return launch(state, false)
    if (state.running.hash === state.requested?.hash) return reconcile(state)
    if (phase.areTurnsPaused) return applyRequested(state)
    return enter(
      state,
      { name: "pausing-turns" },
      { do: "set-timer", name: "pause-deadline", ms: limits.pauseTimeoutMs },
    )
  }
  if (name === "pause-deadline" && phase.name === "pausing-turns") {
    const why = "a new configuration could wait no longer for the turn to end"
    return withEffectFirst({ do: "report-lost", why }, applyRequested(state))
  }
  if (name === "backoff" && phase.name === "backoff") return launch(state, true)
  return [state, []]
}

/** Turns are paused: applies the newest requested plan by a reload, or by a restart when it needs a new process. */
const applyRequested = (state: LaunchState): Step => {
  const { requested, running } = state
  if (!requested || !running) return enter(state, { name: "off" })
  if (running.hash === requested.hash) {
    return enter(
      { ...state, running: requested },
      { name: "up" },
      { do: "report-applied", plan: requested, restarted: false },
    )
  }
  if (running.processHash === requested.processHash) {
    return enter(state, { name: "reloading", plan: requested }, { do: "reload", plan: requested })
  }
  const why = "OpenCode restarts with a new configuration"
  return enter(
    { ...state, running: undefined },
    { name: "stopping", next: "launch" },
    { do: "report-lost", why },
    { do: "stop-process", why },
  )
}

const launch = (state: LaunchState, restarted: boolean): Step => {
  const plan = state.requested
  if (!plan) return enter(state, { name: "off" })
  return enter(state, { name: "launching", plan, restarted }, { do: "launch", plan })
}

const onLaunched = (state: LaunchState, plan: PlanRef, adopted: boolean, now: number): Step => {
  if (state.phase.name !== "launching") return [state, []]
  const restarted = state.phase.restarted && !adopted
  const next = reconcile({ ...state, running: plan, lastWorking: plan, launchedAt: now })
  return withEffectFirst({ do: "report-applied", plan, restarted }, next)
}

const onLaunchFailed = (
  state: LaunchState,
  { plan, kind, error }: Extract<LaunchEvent, { type: "launch-failed" }>,
  now: number,
  limits: LaunchLimits,
): Step => {
  if (state.phase.name !== "launching") return [state, []]
  const { requested, lastWorking } = state
  const refused = refusal(state, plan, error)
  // A newer configuration was requested meanwhile: it gets its own attempt.
  if (requested && requested.hash !== plan.hash)
    return withEffectFirst(refused, launch(state, true))
  const hasNeverWorked = lastWorking?.hash !== plan.hash
  if (hasNeverWorked && lastWorking && kind !== "blocked" && kind !== "setup") {
    return withEffectFirst(refused, launch({ ...state, requested: lastWorking }, true))
  }
  // Another process may free the port at any time, so this is retried without a limit.
  if (kind === "blocked") return withEffectFirst(refused, backOff(state, state.failures, limits))
  if (kind === "config") {
    const fatal = enter(state, { name: "fatal" }, { do: "report-fatal", error })
    return withEffectFirst(refused, fatal)
  }
  const failures = [...recentFailures(state, now), now]
  if (failures.length < MAX_FAILURES)
    return withEffectFirst(refused, backOff(state, failures, limits))
  return withEffectFirst(refused, giveUp(state, error))
}

/** Also covers later requests for an equal plan, which wait for the same reply. */
const refusal = ({ requested }: LaunchState, plan: PlanRef, error: string): LaunchEffect => {
  const { serial } = requested?.hash === plan.hash ? requested : plan
  return { do: "report-refused", serial, error }
}

const onReloaded = (state: LaunchState, plan: PlanRef): Step => {
  if (state.phase.name !== "reloading") return [state, []]
  const next = reconcile({ ...state, running: plan, lastWorking: plan })
  return withEffectFirst({ do: "report-applied", plan, restarted: false }, next)
}

/** The process may have read half of the new configuration, so the old one needs a restart too. */
const onReloadFailed = (state: LaunchState, plan: PlanRef, error: string): Step => {
  if (state.phase.name !== "reloading") return [state, []]
  const isNewest = state.requested?.hash === plan.hash
  const why = "OpenCode goes back to its former configuration"
  return enter(
    { ...state, running: undefined, ...(isNewest && { requested: state.lastWorking }) },
    { name: "stopping", next: "launch" },
    refusal(state, plan, error),
    { do: "report-lost", why },
    { do: "stop-process", why },
  )
}

/** The process exited or hangs. Its descendants are ended before another process starts. */
const onProcessLost = (state: LaunchState, why: string, now: number): Step => {
  if (!state.running) return [state, []]
  const wasStable = now - state.launchedAt >= STABLE_AFTER_MS
  const failures = wasStable ? [now] : [...recentFailures(state, now), now]
  // A configuration that has not been tried yet must not be given up for the failures of the one before.
  const isTried = state.requested?.serial === state.running.serial
  const next = isTried && failures.length >= MAX_FAILURES ? "fatal" : "backoff"
  return enter(
    { ...state, running: undefined, failures },
    { name: "stopping", next },
    { do: "report-lost", why },
    { do: "stop-process", why },
  )
}

const recentFailures = ({ failures }: LaunchState, now: number): readonly number[] =>
  failures.filter((at) => at > now - FAILURE_WINDOW_MS)

const onProcessStopped = (state: LaunchState, limits: LaunchLimits): Step => {
  if (state.phase.name !== "stopping") return [state, []]
  switch (state.phase.next) {
    case "launch":
      return launch(state, true)
    case "backoff":
      return backOff(state, state.failures, limits)
    case "fatal":
      return giveUp(state, "the process ended every time")
    case "end":
      return enter(state, { name: "ended" }, { do: "report-ended" })
  }
}

const backOff = (state: LaunchState, failures: readonly number[], limits: LaunchLimits): Step => {
  const attempt = Math.max(0, failures.length - 1)
  const ms = Math.max(BACKOFF.min, backoffMs(attempt, BACKOFF, limits.random()))
  return enter(
    { ...state, failures },
    { name: "backoff" },
    { do: "set-timer", name: "backoff", ms },
  )
}

/** Clears the failures, so that a new configuration gets all its attempts. */
const giveUp = (state: LaunchState, error: string): Step =>
  enter(
    { ...state, failures: [] },
    { name: "fatal" },
    {
      do: "report-fatal",
      error: `OpenCode failed ${MAX_FAILURES} times within two minutes and waits for a new configuration: ${error}`,
    },
  )

const onShutdownRequested = (state: LaunchState): Step => {
  switch (state.phase.name) {
    case "off":
    case "backoff":
    case "fatal":
      return enter(state, { name: "ended" }, { do: "report-ended" })
    case "batching":
      if (!state.running) return enter(state, { name: "ended" }, { do: "report-ended" })
      break
    case "stopping":
      return enter(state, { name: "stopping", next: "end" })
    default:
      break
  }
  const why = "the runner is shutting down"
  return enter(
    { ...state, running: undefined },
    { name: "stopping", next: "end" },
    { do: "report-lost", why },
    { do: "stop-process", why },
  )
}
