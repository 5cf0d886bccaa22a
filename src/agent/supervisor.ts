/** Keeps one OpenCode running with the configuration that is wanted now; starts, restarts and ends it. */
import { backoffMs } from "../lib/backoff.ts"
import { type Clock, sleep } from "../lib/clock.ts"
import { describeError, type Log } from "../log.ts"
import type { RunningAgent } from "./launcher.ts"
import type { RuntimeConfig } from "./settings.ts"

export interface SupervisorOptions {
  readonly launch: (runtime: RuntimeConfig, signal: AbortSignal) => Promise<RunningAgent>
  /** Called with each OpenCode that is up; the signal ends when that one is gone. */
  readonly onUp: (agent: RunningAgent, gone: AbortSignal) => Promise<void>
  readonly onDown: (why: string) => void
  /** Resolves when OpenCode may be stopped without taking a turn with it. */
  readonly quiet: () => Promise<void>
  readonly clock: Clock
  readonly log: Log
}

export interface Supervisor {
  readonly start: (runtime: RuntimeConfig) => void
  /** Resolves when this configuration is in force; an equal one changes nothing. */
  readonly apply: (runtime: RuntimeConfig) => Promise<{ readonly restarted: boolean }>
  readonly stop: () => Promise<void>
}

const BACKOFF = { min: 1000, max: 30_000 }

export const createSupervisor = (options: SupervisorOptions): Supervisor => {
  const { clock, log } = options
  const stopping = new AbortController()
  let wanted: RuntimeConfig | undefined
  let current: { readonly runtime: RuntimeConfig; readonly agent: RunningAgent } | undefined
  let loop: Promise<void> = Promise.resolve()
  let restart = new AbortController()
  let inForce = Promise.withResolvers<void>()

  const runLoop = async () => {
    let failures = 0
    while (!stopping.signal.aborted && wanted) {
      restart = new AbortController()
      const runtime = wanted
      const interrupted = AbortSignal.any([stopping.signal, restart.signal])
      const gone = new AbortController()
      try {
        const agent = await options.launch(runtime, interrupted)
        current = { runtime, agent }
        await options.onUp(agent, gone.signal)
        inForce.resolve()
        failures = 0
        const asked = new Promise<void>((resolve) =>
          interrupted.addEventListener("abort", () => resolve()),
        )
        const ended = await Promise.race([agent.exited, asked])
        gone.abort()
        options.onDown(
          ended ? `OpenCode ${ended.why}` : "OpenCode restarts with a new configuration",
        )
        if (!ended) await agent.stop()
      } catch (error) {
        gone.abort()
        log.error("agent.start-failed", { error: describeError(error) })
        inForce.reject(error)
        inForce.promise.catch(() => {})
        inForce = Promise.withResolvers()
      }
      current = undefined
      if (interrupted.aborted) continue
      await sleep(clock, backoffMs(failures, BACKOFF, Math.random()), interrupted)
      failures += 1
    }
  }

  return {
    start: (runtime) => {
      wanted = runtime
      loop = runLoop()
    },
    apply: async (runtime) => {
      if (JSON.stringify(runtime) === JSON.stringify(wanted)) {
        await inForce.promise
        return { restarted: false }
      }
      await options.quiet()
      wanted = runtime
      inForce = Promise.withResolvers()
      restart.abort()
      await inForce.promise
      return { restarted: true }
    },
    stop: async () => {
      stopping.abort()
      await current?.agent.stop()
      await loop
    },
  }
}
