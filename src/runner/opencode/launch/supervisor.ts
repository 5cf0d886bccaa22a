/** Runs the launch state machine: carries out its effects, reports their results back, and replies once to every configuration. */
import { createTimers } from "../../../lib/timer.ts"
import type { Clock } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import { mergeConfig, type RuntimeConfig } from "../config/compose-config.ts"
import type { LaunchPlan } from "../config/launch-plan.ts"
import { LaunchError } from "./launch-error.ts"
import {
  initialLaunchState,
  isSuperseded,
  type LaunchEffect,
  type LaunchEvent,
  type LaunchState,
  type PlanRef,
  plansInUse,
} from "./launch-state.ts"
import { stepLaunch } from "./launch-step.ts"
import type { RunningAgent } from "./launcher.ts"

export interface SupervisorOptions {
  /** Throws when the configuration is invalid. */
  readonly makePlan: (config: RuntimeConfig) => LaunchPlan
  /** The configuration that was in force when the previous runner ended. */
  readonly savedConfig: RuntimeConfig
  readonly saveConfig: (config: RuntimeConfig) => void
  readonly launch: (plan: LaunchPlan, signal: AbortSignal) => Promise<RunningAgent>
  /** Resolves when the event stream is open and prompts can be sent. `gone` aborts when the process is replaced. */
  readonly connect: (agent: RunningAgent, gone: AbortSignal) => Promise<void>
  readonly reload: (
    agent: RunningAgent,
    gone: AbortSignal,
    from: LaunchPlan,
    to: LaunchPlan,
  ) => Promise<void>
  /** Resolves with a reason when the process has stopped responding. */
  readonly waitUntilHung: (agent: RunningAgent, gone: AbortSignal) => Promise<string | undefined>
  readonly onLost: (why: string) => void
  readonly onFatal: (error: string) => void
  /** Starts no further turn; resolves when none runs. `resumeTurns` or an OpenCode with the newest configuration lifts it. */
  readonly pauseTurns: () => Promise<void>
  readonly resumeTurns: () => void
  readonly pauseTimeoutMs: number
  readonly clock: Clock
  readonly log: Log
}

export interface ConfigOutcome {
  readonly success: boolean
  readonly restarted: boolean
  readonly error?: string
}

export interface Supervisor {
  /** Starts OpenCode with the saved configuration, unless one was requested already. */
  readonly start: () => void
  readonly configure: (change: RuntimeConfig) => Promise<ConfigOutcome>
  /** The configuration that OpenCode starts or reads is not the newest one: prompts wait for that. */
  readonly isSuperseded: () => boolean
  readonly phase: () => string
  readonly pid: () => number | undefined
  readonly stop: () => Promise<void>
}

interface CurrentProcess {
  readonly agent: RunningAgent
  readonly gone: AbortController
}

interface PendingReply {
  readonly serial: number
  readonly resolve: (outcome: ConfigOutcome) => void
}

export const createSupervisor = (options: SupervisorOptions): Supervisor => {
  const { clock, log } = options
  const ended = Promise.withResolvers<void>()
  const plans = new Map<string, LaunchPlan>()
  const timers = createTimers(clock.after)
  let pendingReplies: readonly PendingReply[] = []
  let lastSerial = 0
  let latestConfig = options.savedConfig
  let launching: { readonly cancel: () => void; readonly finished: Promise<void> } | undefined
  let current: CurrentProcess | undefined
  let isHung = false
  /** Counts pauses and their ends: a pause that was lifted is not reported when it is reached later. */
  let pauses = 0

  const makePlanRef = (config: RuntimeConfig): PlanRef => {
    const plan = options.makePlan(config)
    plans.set(plan.hash, plan)
    return { serial: (lastSerial += 1), hash: plan.hash, processHash: plan.processHash }
  }
  const planOf = ({ hash }: PlanRef): LaunchPlan => {
    const plan = plans.get(hash)
    if (!plan) throw new Error(`bug: no launch plan is kept for hash ${hash}`)
    return plan
  }

  /** The saved configuration may be invalid for this version of the runner; it is then ignored. */
  const savedPlan = (): PlanRef | undefined => {
    if (Object.keys(latestConfig).length === 0) return undefined
    try {
      return makePlanRef(latestConfig)
    } catch (error) {
      log.warn("agent.saved-config-dropped", { error: describeError(error) })
      latestConfig = {}
      return undefined
    }
  }
  // Created with the first event: a plan needs the gateway's port, which is not known before.
  let state: LaunchState | undefined

  const dispatch = (event: LaunchEvent): void => {
    const limits = { pauseTimeoutMs: options.pauseTimeoutMs, random: Math.random }
    const before = state ?? initialLaunchState(savedPlan())
    const [next, effects] = stepLaunch(before, event, clock.now(), limits)
    state = next
    const [from, to] = [before.phase.name, next.phase.name]
    if (from !== to) log.debug("agent.phase", { from, to })
    for (const effect of effects) perform(effect)
    if (from !== "up" && to === "up") {
      pauses += 1
      options.resumeTurns()
    }
    const inUse = plansInUse(next)
    for (const hash of plans.keys()) if (!inUse.has(hash)) plans.delete(hash)
  }

  const perform = (effect: LaunchEffect): void => {
    switch (effect.do) {
      case "launch":
        return launch(effect.plan)
      case "reload":
        return void reload(effect.plan)
      case "stop-process":
        return void stopProcess()
      case "pause-turns":
        return void pauseTurns()
      case "set-timer":
        return timers.arm(effect.name, effect.ms, () =>
          dispatch({ type: "timer", name: effect.name }),
        )
      case "report-lost":
        return options.onLost(effect.why)
      case "report-applied":
        saveConfig(planOf(effect.plan).runtime)
        return replyUpTo(effect.plan.serial, { success: true, restarted: effect.restarted })
      case "report-refused":
        if (lastSerial === effect.serial) latestConfig = lastWorkingConfig()
        log.error("agent.config-refused", { error: effect.error })
        return replyUpTo(effect.serial, { success: false, restarted: false, error: effect.error })
      case "report-fatal":
        log.error("agent.fatal", { error: effect.error })
        return options.onFatal(effect.error)
      case "report-ended":
        timers.cancelAll()
        replyUpTo(lastSerial, {
          success: false,
          restarted: false,
          error: "the runner is shutting down",
        })
        return ended.resolve()
    }
  }

  const pauseTurns = async (): Promise<void> => {
    const pause = (pauses += 1)
    await options.pauseTurns()
    if (pause === pauses) dispatch({ type: "turns-paused" })
  }

  /** On a full disk the configuration is in force, and the next runner starts with the former one. */
  const saveConfig = (config: RuntimeConfig): void => {
    try {
      options.saveConfig(config)
    } catch (error) {
      log.error("agent.config-not-saved", { error: describeError(error) })
    }
  }

  const lastWorkingConfig = (): RuntimeConfig =>
    state?.lastWorking ? planOf(state.lastWorking).runtime : latestConfig

  const replyUpTo = (serial: number, outcome: ConfigOutcome) => {
    const due = pendingReplies.filter((pending) => pending.serial <= serial)
    pendingReplies = pendingReplies.filter((pending) => pending.serial > serial)
    for (const { resolve } of due) resolve(outcome)
  }

  const launch = (plan: PlanRef): void => {
    const controller = new AbortController()
    const run = async () => {
      try {
        const agent = await options.launch(planOf(plan), controller.signal)
        await takeIntoUse(agent, plan, controller.signal)
      } catch (error) {
        const kind = error instanceof LaunchError ? error.kind : "setup"
        dispatch({ type: "launch-failed", plan, kind, error: describeError(error) })
      }
    }
    launching = { cancel: () => controller.abort(), finished: run() }
  }

  const takeIntoUse = async (
    agent: RunningAgent,
    plan: PlanRef,
    signal: AbortSignal,
  ): Promise<void> => {
    const gone = new AbortController()
    const started: CurrentProcess = { agent, gone }
    try {
      const earlyExit = agent.exited.then(({ why }) => Promise.reject(new LaunchError("exit", why)))
      earlyExit.catch(() => {})
      await Promise.race([options.connect(agent, gone.signal), earlyExit])
      signal.throwIfAborted()
    } catch (error) {
      gone.abort()
      await agent.stop("now")
      if (error instanceof LaunchError) throw error
      throw new LaunchError(
        "timeout",
        `OpenCode is healthy but cannot be used: ${describeError(error)}`,
      )
    }
    current = started
    isHung = false
    const reportLost = (why: string) => {
      if (current === started) dispatch({ type: "process-lost", why })
    }
    void agent.exited.then(({ why }) => reportLost(why))
    const watchForHang = async () => {
      const why = await options.waitUntilHung(agent, gone.signal)
      if (why === undefined || current !== started) return
      isHung = true
      reportLost(why)
    }
    void watchForHang()
    dispatch({ type: "launched", plan, adopted: agent.adopted })
  }

  const reload = async (plan: PlanRef): Promise<void> => {
    const target = current
    const from = state?.running
    try {
      if (!target || !from) throw new Error("OpenCode exited before the reload")
      await options.reload(target.agent, target.gone.signal, planOf(from), planOf(plan))
      await target.agent.recordConfigHash(plan.hash)
      dispatch({ type: "reloaded", plan })
    } catch (error) {
      dispatch({ type: "reload-failed", plan, error: describeError(error) })
    }
  }

  const stopProcess = async (): Promise<void> => {
    launching?.cancel()
    await launching?.finished
    const target = current
    current = undefined
    target?.gone.abort()
    try {
      await target?.agent.stop(isHung ? "now" : "gently")
    } catch (error) {
      log.error("agent.stop-failed", { error: describeError(error) })
    }
    dispatch({ type: "process-stopped" })
  }

  return {
    start: () => {
      if (state?.requested === undefined)
        dispatch({ type: "config-requested", plan: makePlanRef(latestConfig) })
    },
    configure: (change) => {
      const merged = mergeConfig(latestConfig, change)
      try {
        const plan = makePlanRef(merged)
        latestConfig = merged
        return new Promise((resolve) => {
          pendingReplies = [...pendingReplies, { serial: plan.serial, resolve }]
          dispatch({ type: "config-requested", plan })
        })
      } catch (error) {
        const refused = { success: false, restarted: false, error: describeError(error) }
        return Promise.resolve(refused)
      }
    },
    isSuperseded: () => state !== undefined && isSuperseded(state),
    phase: () => state?.phase.name ?? "off",
    pid: () => current?.agent.pid,
    stop: () => {
      dispatch({ type: "shutdown-requested" })
      return ended.promise
    },
  }
}
