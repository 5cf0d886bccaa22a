/** Carries out what the launch machine decides, and tells it what came of it; answers every configuration once. */
import type { Clock } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import type { LaunchPlan } from "../config/launch-plan.ts"
import {
  type LaunchEffect,
  type LaunchEvent,
  type LaunchState,
  newLaunch,
  type Plan,
  stepLaunch,
} from "./launch-state.ts"
import { LaunchError } from "./launch-error.ts"
import type { RunningAgent } from "./launcher.ts"
import { mergeRuntime, type RuntimeConfig } from "../config/compose-config.ts"

export interface LifeOptions {
  readonly blueprint: (runtime: RuntimeConfig) => LaunchPlan
  /** The configuration that an earlier runner had in force. */
  readonly known: RuntimeConfig
  readonly remember: (runtime: RuntimeConfig) => void
  readonly launch: (blueprint: LaunchPlan, signal: AbortSignal) => Promise<RunningAgent>
  /** Makes it useful: resolves when it is listened to and prompts may come. `gone` ends with the current. */
  readonly bringUp: (agent: RunningAgent, gone: AbortSignal) => Promise<void>
  readonly reload: (
    agent: RunningAgent,
    gone: AbortSignal,
    from: LaunchPlan,
    to: LaunchPlan,
  ) => Promise<void>
  /** Resolves with a reason when a running process does not answer any more. */
  readonly untilHung: (agent: RunningAgent, gone: AbortSignal) => Promise<string | undefined>
  readonly onLost: (why: string) => void
  readonly onFatal: (error: string) => void
  /** Lets no turn begin, and resolves when none runs; whoever is ready next ends it, or `goOn`. */
  readonly quiet: () => Promise<void>
  readonly goOn: () => void
  readonly drainMs: number
  readonly clock: Clock
  readonly log: Log
}

export interface Applied {
  readonly success: boolean
  readonly restarted: boolean
  readonly error?: string
}

export interface Life {
  /** Starts with what is known, when no configuration came. */
  readonly start: () => void
  readonly configure: (change: RuntimeConfig) => Promise<Applied>
  readonly phase: () => string
  readonly pid: () => number | undefined
  readonly stop: () => Promise<void>
}

interface Process {
  readonly agent: RunningAgent
  readonly gone: AbortController
}

export const createSupervisor = (options: LifeOptions): Life => {
  const { clock, log } = options
  const ended = Promise.withResolvers<void>()
  const blueprints = new Map<string, LaunchPlan>()
  const timers = new Map<string, () => void>()
  let waiting: { readonly serial: number; readonly answer: (applied: Applied) => void }[] = []
  let serial = 0
  let latest = options.known
  let launching: { readonly cancel: () => void; readonly over: Promise<void> } | undefined
  let current: Process | undefined
  let isHung = false

  const planOf = (runtime: RuntimeConfig): Plan => {
    const made = options.blueprint(runtime)
    blueprints.set(made.hash, made)
    return { serial: (serial += 1), hash: made.hash, processHash: made.processHash }
  }
  const blueprintOf = ({ hash }: Plan): LaunchPlan => {
    const found = blueprints.get(hash)
    if (!found) throw new Error("a plan without a blueprint")
    return found
  }

  /** A configuration of an earlier runner may not pass any more: then it is as if there were none. */
  const provenAtBoot = (): Plan | undefined => {
    if (Object.keys(latest).length === 0) return undefined
    try {
      return planOf(latest)
    } catch (error) {
      log.warn("agent.known-config-dropped", { error: describeError(error) })
      latest = {}
      return undefined
    }
  }
  // Made with the first event: what a configuration means may depend on parts that are not up before.
  let state: LaunchState | undefined

  const tell = (event: LaunchEvent): void => {
    const limits = { drainMs: options.drainMs, random: Math.random }
    const now = state ?? newLaunch(provenAtBoot())
    const before = now.phase.name
    const [next, effects] = stepLaunch(now, event, clock.now(), limits)
    state = next
    if (next.phase.name !== before) log.debug("agent.phase", { from: before, to: next.phase.name })
    for (const effect of effects) perform(effect)
    // The change that turns waited for is none any more.
    if (before === "draining" && next.phase.name === "up") options.goOn()
    const inUse = [next.wanted, next.running, next.proven].map((plan) => plan?.hash)
    for (const hash of blueprints.keys()) if (!inUse.includes(hash)) blueprints.delete(hash)
  }

  const perform = (effect: LaunchEffect): void => {
    switch (effect.do) {
      case "launch":
        return launch(effect.plan)
      case "reload":
        return void reload(effect.plan)
      case "stop":
        return void stop()
      case "drain":
        return void options.quiet().then(() => tell({ type: "quiet" }))
      case "timer":
        timers.get(effect.name)?.()
        timers.set(
          effect.name,
          clock.after(effect.ms, () => tell({ type: "timer", name: effect.name })),
        )
        return
      case "lost":
        return options.onLost(effect.why)
      case "applied":
        options.remember(blueprintOf(effect.plan).runtime)
        return answer(effect.plan.serial, { success: true, restarted: effect.restarted })
      case "refused":
        if (serial === effect.serial) latest = provenRuntime()
        log.error("agent.refused", { error: effect.error })
        return answer(effect.serial, { success: false, restarted: false, error: effect.error })
      case "fatal":
        log.error("agent.fatal", { error: effect.error })
        return options.onFatal(effect.error)
      case "ended":
        for (const cancel of timers.values()) cancel()
        answer(serial, { success: false, restarted: false, error: "the runner is shutting down" })
        return ended.resolve()
    }
  }

  const provenRuntime = (): RuntimeConfig =>
    state?.proven ? blueprintOf(state.proven).runtime : latest

  const answer = (upTo: number, applied: Applied) => {
    const due = waiting.filter((entry) => entry.serial <= upTo)
    waiting = waiting.filter((entry) => entry.serial > upTo)
    for (const entry of due) entry.answer(applied)
  }

  const launch = (plan: Plan): void => {
    const controller = new AbortController()
    const run = async () => {
      try {
        const agent = await options.launch(blueprintOf(plan), controller.signal)
        await use(agent, plan, controller.signal)
      } catch (error) {
        const kind = error instanceof LaunchError ? error.kind : "setup"
        tell({ type: "launch-failed", plan, kind, error: describeError(error) })
      }
    }
    launching = { cancel: () => controller.abort(), over: run() }
  }

  const use = async (agent: RunningAgent, plan: Plan, signal: AbortSignal): Promise<void> => {
    const gone = new AbortController()
    const mine: Process = { agent, gone }
    try {
      const premature = agent.exited.then(({ why }) => Promise.reject(new LaunchError("exit", why)))
      premature.catch(() => {})
      await Promise.race([options.bringUp(agent, gone.signal), premature])
      signal.throwIfAborted()
    } catch (error) {
      gone.abort()
      await agent.stop("now")
      if (error instanceof LaunchError) throw error
      throw new LaunchError("timeout", `OpenCode is healthy but of no use: ${describeError(error)}`)
    }
    current = mine
    isHung = false
    const failed = (why: string) => {
      if (current === mine) tell({ type: "exited", why })
    }
    void agent.exited.then(({ why }) => failed(why))
    const watch = async () => {
      const why = await options.untilHung(agent, gone.signal)
      if (why === undefined || current !== mine) return
      isHung = true
      failed(why)
    }
    void watch()
    tell({ type: "up", plan, adopted: agent.adopted })
  }

  const reload = async (plan: Plan): Promise<void> => {
    const mine = current
    const from = state?.running
    try {
      if (!mine || !from) throw new Error("OpenCode is gone")
      await options.reload(mine.agent, mine.gone.signal, blueprintOf(from), blueprintOf(plan))
      await mine.agent.reloaded(plan.hash)
      tell({ type: "reloaded", plan })
    } catch (error) {
      tell({ type: "reload-failed", plan, error: describeError(error) })
    }
  }

  const stop = async (): Promise<void> => {
    launching?.cancel()
    await launching?.over
    const mine = current
    current = undefined
    mine?.gone.abort()
    try {
      await mine?.agent.stop(isHung ? "now" : "gently")
    } catch (error) {
      log.error("agent.stop-failed", { error: describeError(error) })
    }
    tell({ type: "stopped" })
  }

  return {
    start: () => {
      if (state?.wanted === undefined) tell({ type: "want", plan: planOf(latest) })
    },
    configure: (change) => {
      const merged = mergeRuntime(latest, change)
      try {
        const plan = planOf(merged)
        latest = merged
        return new Promise((resolve) => {
          waiting.push({ serial: plan.serial, answer: resolve })
          tell({ type: "want", plan })
        })
      } catch (error) {
        const applied = { success: false, restarted: false, error: describeError(error) }
        return Promise.resolve(applied)
      }
    },
    phase: () => state?.phase.name ?? "off",
    pid: () => current?.agent.pid,
    stop: () => {
      tell({ type: "shut-down" })
      return ended.promise
    },
  }
}
