/**
 * The agent's life as a pure machine: what is wanted and what happens to the process -> start, reload, stop, wait,
 * give up. It knows no process and no clock; timers are effects that come back as events.
 */

/** What OpenCode is to run with, as far as the machine must tell two of them apart. */
export interface Plan {
  /** Rises with every configuration that is asked for. */
  readonly serial: number
  /** Of everything: equal hashes need no change. */
  readonly hash: string
  /** Of what only a new process can take: tool code, environment, version. */
  readonly processHash: string
}

/**
 * `config`: OpenCode is well and refuses the configuration. `blocked`: someone else has its port.
 * `exit`: it ended before it was healthy. `timeout`: it runs and never became healthy. `setup`: it could not be
 * started at all.
 */
export type FailureKind = "config" | "blocked" | "exit" | "timeout" | "setup"

export type LaunchEvent =
  | { readonly type: "want"; readonly plan: Plan }
  | { readonly type: "up"; readonly plan: Plan; readonly adopted: boolean }
  | {
      readonly type: "launch-failed"
      readonly plan: Plan
      readonly kind: FailureKind
      readonly error: string
    }
  | { readonly type: "reloaded"; readonly plan: Plan }
  | { readonly type: "reload-failed"; readonly plan: Plan; readonly error: string }
  | { readonly type: "quiet" }
  /** The process ended by itself, or was found not to answer. */
  | { readonly type: "exited"; readonly why: string }
  /** What `stop` asked for is done: the process and all it started are gone. */
  | { readonly type: "stopped" }
  | { readonly type: "timer"; readonly name: TimerName }
  | { readonly type: "shut-down" }

export type TimerName = "gather" | "drain" | "backoff"

export type LaunchEffect =
  | { readonly do: "launch"; readonly plan: Plan }
  | { readonly do: "reload"; readonly plan: Plan }
  | { readonly do: "stop"; readonly why: string }
  | { readonly do: "drain" }
  | { readonly do: "timer"; readonly name: TimerName; readonly ms: number }
  /** Nobody works any more: turns are to be told, with the reason. */
  | { readonly do: "lost"; readonly why: string }
  /** Every configuration up to this serial is in force. */
  | { readonly do: "applied"; readonly plan: Plan; readonly restarted: boolean }
  | { readonly do: "refused"; readonly serial: number; readonly error: string }
  | { readonly do: "fatal"; readonly error: string }
  | { readonly do: "ended" }

type Phase =
  | { readonly name: "off" }
  /** A change has come; a moment is left for others to join it. */
  | { readonly name: "gathering" }
  | { readonly name: "draining" }
  | { readonly name: "launching"; readonly plan: Plan; readonly restarted: boolean }
  | { readonly name: "reloading"; readonly plan: Plan }
  | { readonly name: "up" }
  | { readonly name: "stopping"; readonly next: "launch" | "backoff" | "fatal" | "end" }
  | { readonly name: "backoff" }
  | { readonly name: "fatal" }
  | { readonly name: "ended" }

export interface LaunchState {
  readonly phase: Phase
  readonly wanted: Plan | undefined
  /** What the process runs with; nothing when there is no process that works. */
  readonly running: Plan | undefined
  /** The last plan that is known to work: what is gone back to when a new one does not. */
  readonly proven: Plan | undefined
  readonly upSince: number
  /** When OpenCode failed, within the window that counts. */
  readonly failures: readonly number[]
}

export interface LaunchLimits {
  readonly drainMs: number
  readonly random: () => number
}

const GATHER_MS = 50
export const FATAL_FAILURES = 5
const FAILURE_WINDOW_MS = 120_000
/** A process that worked for this long starts with a clean record when it ends. */
export const STEADY_MS = 60_000
const BACKOFF_MIN_MS = 1000
const BACKOFF_MAX_MS = 30_000

/** `proven`: the plan that an earlier runner had in force. */
export const newLaunch = (proven?: Plan): LaunchState => ({
  phase: { name: "off" },
  wanted: undefined,
  running: undefined,
  proven,
  upSince: 0,
  failures: [],
})

type Step = readonly [LaunchState, readonly LaunchEffect[]]

export const stepLaunch = (
  state: LaunchState,
  event: LaunchEvent,
  now: number,
  limits: LaunchLimits,
): Step => {
  if (state.phase.name === "ended") return [state, []]
  switch (event.type) {
    case "want":
      return want({ ...state, wanted: event.plan })
    case "timer":
      return timer(state, event.name, limits)
    case "quiet":
      return state.phase.name === "draining" ? change(state) : [state, []]
    case "up":
      return up(state, event.plan, event.adopted, now)
    case "launch-failed":
      return launchFailed(state, event, now, limits)
    case "reloaded":
      return reloaded(state, event.plan)
    case "reload-failed":
      return reloadFailed(state, event.plan, event.error)
    case "exited":
      return failed(state, event.why, now)
    case "stopped":
      return stopped(state, limits)
    case "shut-down":
      return shutDown(state)
  }
}

const enter = (state: LaunchState, phase: Phase, ...effects: readonly LaunchEffect[]): Step => [
  { ...state, phase },
  effects,
]

const want = (state: LaunchState): Step => {
  switch (state.phase.name) {
    case "off":
    case "up":
    case "fatal":
      return settle(state)
    case "stopping":
      // A new wish is what giving up waits for.
      if (state.phase.next !== "fatal") return [state, []]
      return enter({ ...state, failures: [] }, { name: "stopping", next: "backoff" })
    // In every other phase something is under way whose end looks at what is wanted by then.
    default:
      return [state, []]
  }
}

/** Compares what is wanted with what is there, and does the next thing about it. */
const settle = (state: LaunchState): Step => {
  const { wanted, running } = state
  if (!wanted) return enter(state, { name: running ? "up" : "off" })
  if (running?.hash === wanted.hash) {
    const applied = { do: "applied", plan: wanted, restarted: false } as const
    const isNews = running.serial !== wanted.serial
    return enter({ ...state, running: wanted }, { name: "up" }, ...(isNews ? [applied] : []))
  }
  return enter(state, { name: "gathering" }, { do: "timer", name: "gather", ms: GATHER_MS })
}

const timer = (state: LaunchState, name: TimerName, limits: LaunchLimits): Step => {
  const { phase } = state
  if (name === "gather" && phase.name === "gathering") {
    if (!state.running) return launch(state, false)
    if (state.running.hash === state.wanted?.hash) return settle(state)
    const time = { do: "timer", name: "drain", ms: limits.drainMs } as const
    return enter(state, { name: "draining" }, { do: "drain" }, time)
  }
  if (name === "drain" && phase.name === "draining") {
    const why = "a new configuration could wait no longer for the turn to end"
    return withFirst({ do: "lost", why }, change(state))
  }
  if (name === "backoff" && phase.name === "backoff") return launch(state, true)
  return [state, []]
}

/** The turns are over: the change that was waited with happens now, with the newest wish. */
const change = (state: LaunchState): Step => {
  const { wanted, running } = state
  if (!wanted || !running) return enter(state, { name: "off" })
  if (running.hash === wanted.hash) {
    const applied = { do: "applied", plan: wanted, restarted: false } as const
    return enter({ ...state, running: wanted }, { name: "up" }, applied)
  }
  if (running.processHash === wanted.processHash) {
    return enter(state, { name: "reloading", plan: wanted }, { do: "reload", plan: wanted })
  }
  const why = "OpenCode restarts with a new configuration"
  return enter(
    { ...state, running: undefined },
    { name: "stopping", next: "launch" },
    { do: "lost", why },
    { do: "stop", why },
  )
}

const launch = (state: LaunchState, restarted: boolean): Step => {
  const plan = state.wanted
  if (!plan) return enter(state, { name: "off" })
  return enter(state, { name: "launching", plan, restarted }, { do: "launch", plan })
}

const up = (state: LaunchState, plan: Plan, adopted: boolean, now: number): Step => {
  if (state.phase.name !== "launching") return [state, []]
  const restarted = state.phase.restarted && !adopted
  const next = { ...state, running: plan, proven: plan, upSince: now }
  const [settled, effects] = settle(next)
  return [settled, [{ do: "applied", plan, restarted }, ...effects]]
}

const launchFailed = (
  state: LaunchState,
  { plan, kind, error }: Extract<LaunchEvent, { type: "launch-failed" }>,
  now: number,
  limits: LaunchLimits,
): Step => {
  if (state.phase.name !== "launching") return [state, []]
  const { wanted, proven } = state
  const refused = refuse(state, plan, error)
  // Something newer is wanted already: it gets its own try.
  if (wanted && wanted.hash !== plan.hash) return withFirst(refused, launch(state, true))
  const isNew = proven?.hash !== plan.hash
  if (isNew && proven && kind !== "blocked" && kind !== "setup") {
    return withFirst(refused, launch({ ...state, wanted: proven }, true))
  }
  // A port that someone else holds may be let go at any time; giving up would leave the agent dead for nothing.
  if (kind === "blocked") return withFirst(refused, backOff(state, state.failures, limits))
  if (kind === "config") {
    return withFirst(refused, enter(state, { name: "fatal" }, { do: "fatal", error }))
  }
  const failures = [...state.failures.filter((at) => at > now - FAILURE_WINDOW_MS), now]
  if (failures.length < FATAL_FAILURES) return withFirst(refused, backOff(state, failures, limits))
  return withFirst(refused, giveUp(state, error))
}

/** What failed is also what everyone asked for who asked for the same since. */
const refuse = ({ wanted }: LaunchState, plan: Plan, error: string): LaunchEffect => {
  const { serial } = wanted?.hash === plan.hash ? wanted : plan
  return { do: "refused", serial, error }
}

const withFirst = (first: LaunchEffect, [state, effects]: Step): Step => [
  state,
  [first, ...effects],
]

const reloaded = (state: LaunchState, plan: Plan): Step => {
  if (state.phase.name !== "reloading") return [state, []]
  const [settled, effects] = settle({ ...state, running: plan, proven: plan })
  return [settled, [{ do: "applied", plan, restarted: false }, ...effects]]
}

/** The process may have read half of it: only the former files make it whole again, and those need a start. */
const reloadFailed = (state: LaunchState, plan: Plan, error: string): Step => {
  if (state.phase.name !== "reloading") return [state, []]
  const isNewest = state.wanted?.hash === plan.hash
  const why = "OpenCode goes back to its former configuration"
  const next = { ...state, running: undefined, ...(isNewest && { wanted: state.proven }) }
  const refused = refuse(state, plan, error)
  return enter(
    next,
    { name: "stopping", next: "launch" },
    refused,
    { do: "lost", why },
    { do: "stop", why },
  )
}

/** It ended, or runs and does not answer: either way its children are ended before anything else starts. */
const failed = (state: LaunchState, why: string, now: number): Step => {
  if (!state.running) return [state, []]
  const failures = countFailure(state, now)
  // A wish that still waits for its answer has not failed five times.
  const isTried = state.wanted?.serial === state.running.serial
  const next = isTried && failures.length >= FATAL_FAILURES ? "fatal" : "backoff"
  return enter(
    { ...state, running: undefined, failures },
    { name: "stopping", next },
    { do: "lost", why },
    { do: "stop", why },
  )
}

const countFailure = (state: LaunchState, now: number): readonly number[] =>
  now - state.upSince >= STEADY_MS
    ? [now]
    : [...state.failures.filter((at) => at > now - FAILURE_WINDOW_MS), now]

const stopped = (state: LaunchState, limits: LaunchLimits): Step => {
  if (state.phase.name !== "stopping") return [state, []]
  switch (state.phase.next) {
    case "launch":
      return launch(state, true)
    case "backoff":
      return backOff(state, state.failures, limits)
    case "fatal":
      return giveUp(state, "it ended again and again")
    case "end":
      return enter(state, { name: "ended" }, { do: "ended" })
  }
}

const backOff = (state: LaunchState, failures: readonly number[], limits: LaunchLimits): Step => {
  const doubled = BACKOFF_MIN_MS * 2 ** Math.max(0, failures.length - 1)
  const full = Math.min(BACKOFF_MAX_MS, doubled)
  const ms = Math.max(BACKOFF_MIN_MS, Math.round(full / 2 + (full / 2) * limits.random()))
  return enter({ ...state, failures }, { name: "backoff" }, { do: "timer", name: "backoff", ms })
}

/** A new configuration starts with a clean record, so a person can mend what is wrong. */
const giveUp = (state: LaunchState, error: string): Step =>
  enter(
    { ...state, failures: [] },
    { name: "fatal" },
    {
      do: "fatal",
      error: `OpenCode failed ${FATAL_FAILURES} times within two minutes and waits for a new configuration: ${error}`,
    },
  )

const shutDown = (state: LaunchState): Step => {
  switch (state.phase.name) {
    case "off":
    case "backoff":
    case "fatal":
      return enter(state, { name: "ended" }, { do: "ended" })
    case "gathering":
      if (!state.running) return enter(state, { name: "ended" }, { do: "ended" })
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
    { do: "lost", why },
    { do: "stop", why },
  )
}
