/** The only code that starts OpenCode, takes over one that was left running, and ends either with all it started. */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import { type AgentClient, createAgentClient } from "../client/client.ts"
import { endAgent, isOurs } from "./terminate.ts"
import { waitForHealth } from "./health.ts"
import { checkConfig, LaunchError } from "./launch-error.ts"
import { choosePort } from "./free-port.ts"
import type { AgentUser, ProcessIdentity, Processes } from "./interfaces.ts"
import type { RunRecord, RunRecordFile } from "./run-record.ts"
import { type ProcessOrder, type Spawned, spawnAgent } from "./spawn.ts"

export interface LauncherOptions {
  readonly url: URL
  readonly workDir: string
  readonly logFile: string
  readonly record: RunRecordFile
  readonly processes: Processes
  readonly user: AgentUser | undefined
  readonly clock: Clock
  readonly log: Log
  /** The last lines that OpenCode wrote. */
  readonly lastWords: () => Promise<readonly string[]>
  readonly healthMs?: number
}

export interface LaunchOrder extends ProcessOrder {
  readonly hash: string
  /** Writes the configuration. */
  readonly prepare: () => Promise<void>
  /** It is well, says which version it is, and has read nothing yet. */
  readonly known: (version: string) => Promise<void>
  readonly signal: AbortSignal
}

export interface RunningAgent {
  readonly client: AgentClient
  readonly version: string
  readonly pid: number
  readonly url: string
  /** It was running before this runner was. */
  readonly adopted: boolean
  /** Resolves when the process is gone, however it went. */
  readonly exited: Promise<{ readonly why: string }>
  /** It runs with another configuration now. */
  readonly reloaded: (hash: string) => Promise<void>
  /** Ends it and everything it started. `now`: without a word to it first, for one that does not listen. */
  readonly stop: (how: "gently" | "now") => Promise<void>
}

export interface Launcher {
  /**
   * Starts a process whose configuration is not known yet: the next launch takes it if it fits, else ends it.
   * Nothing happens while an earlier runner's OpenCode may be there to be taken over.
   */
  readonly headStart: (order: ProcessOrder) => void
  readonly launch: (order: LaunchOrder) => Promise<RunningAgent>
  /** Ends what was started ahead and never taken. */
  readonly stop: () => Promise<void>
}

const HEALTH_LIMIT_MS = 60_000
const ADOPT_TRIES = 3
const ALIVE_POLL_MS = 500
const REAP_MS = 1000

export const createLauncher = (options: LauncherOptions): Launcher => {
  const { clock, log, processes, record } = options
  let ahead: Promise<Spawned | undefined> | undefined

  const launch = async (order: LaunchOrder): Promise<RunningAgent> => {
    const early = await takeAhead(order)
    // It reads its configuration when it is first asked something, so there is time to write it while it starts.
    if (early) return bringUp(early, order, order.prepare())
    const left = await record.read()
    const adopted = left && (await adopt(left, order))
    if (adopted) return adopted
    if (left) await endLeft(left)
    return bringUp(await start(order, order.prepare), order)
  }

  const start = async (order: ProcessOrder, prepare?: () => Promise<void>): Promise<Spawned> => {
    const port = await choosePort(options.url, processes)
    await order.makeRoom()
    await prepare?.()
    return spawnAgent(order, port, { ...options, hostname: options.url.hostname })
  }

  const startAhead = async (order: ProcessOrder): Promise<Spawned | undefined> => {
    try {
      return (await record.read()) ? undefined : await start(order)
    } catch (error) {
      // The launch meets the same, and tells it.
      log.debug("agent.no-head-start", { error: describeError(error) })
      return undefined
    }
  }

  const drop = ({ entry, exited }: Spawned) => asAgent(entry, exited, false).stop("now")

  const takeAhead = async (order: LaunchOrder): Promise<Spawned | undefined> => {
    const early = await ahead
    ahead = undefined
    if (!early) return undefined
    if (early.entry.startHash === order.startHash && early.end() === undefined) return early
    await drop(early)
    return undefined
  }

  const bringUp = async (
    { entry, end: ended, exited }: Spawned,
    order: LaunchOrder,
    prepared?: Promise<void>,
  ): Promise<RunningAgent> => {
    const agent = asAgent(entry, exited, false)
    try {
      await prepared
      const version = await waitForHealth({
        client: agent.client,
        listens: () => processes.listensOn(entry.pid, Number(new URL(entry.url).port)),
        end: ended,
        words,
        limitMs: options.healthMs ?? HEALTH_LIMIT_MS,
        clock,
        signal: order.signal,
      })
      await order.known(version)
      await checkConfig(agent.client)
      await agent.reloaded(order.hash)
      log.info("agent.healthy", { version, pid: entry.pid, url: entry.url })
      return { ...agent, version }
    } catch (error) {
      await agent.stop("now")
      throw error
    }
  }

  /** An OpenCode of an earlier runner, if it is the very process, well, and what is wanted now. */
  const adopt = async (left: RunRecord, order: LaunchOrder): Promise<RunningAgent | undefined> => {
    if (!isOurs(left, processes)) return undefined
    const isWanted =
      left.hash === order.hash &&
      left.version === order.version &&
      (order.password === undefined || order.password === left.password)
    if (!isWanted || !processes.listensOn(left.pid, Number(new URL(left.url).port)))
      return undefined
    const agent = asAgent(left, untilGone(left), true)
    for (let tries = 0; tries < ADOPT_TRIES; tries += 1) {
      try {
        const { version } = await agent.client.health()
        log.info("agent.adopted", { pid: left.pid, url: left.url, version })
        return { ...agent, version }
      } catch (error) {
        log.warn("agent.not-adopted-yet", { pid: left.pid, error: describeError(error) })
      }
    }
    return undefined
  }

  /** It is nobody's child here, so nothing tells of its end but its absence. */
  const untilGone = async (identity: ProcessIdentity): Promise<{ why: string }> => {
    while (processes.isAlive(identity)) await sleep(clock, ALIVE_POLL_MS)
    return { why: "OpenCode ended" }
  }

  /** Also when the process itself is gone: what it started may not be. */
  const endLeft = async (left: RunRecord) => {
    const wasThere = isOurs(left, processes)
    const ended = await end(left, "gently")
    if (wasThere || ended > 0)
      log.info("agent.left-over-ended", { pid: left.pid, processes: ended })
    await record.clear()
  }

  const asAgent = (
    entry: RunRecord,
    exited: Promise<{ readonly why: string }>,
    adopted: boolean,
  ): RunningAgent => {
    let latest = entry
    return {
      client: clientOf(entry),
      version: entry.version,
      pid: entry.pid,
      url: entry.url,
      adopted,
      exited,
      reloaded: async (hash) => {
        latest = { ...latest, hash }
        await record.write(latest)
      },
      stop: async (how) => {
        const ended = await end(entry, how)
        // A child that nobody asked for its exit code stays behind as a zombie when this process ends.
        await Promise.race([exited, sleep(clock, REAP_MS)])
        log.info("agent.stopped", { pid: entry.pid, processes: ended })
        await record.clear()
      },
    }
  }

  const clientOf = ({ url, password }: RunRecord) =>
    createAgentClient({ url, password, directory: options.workDir })

  const end = (entry: RunRecord, how: "gently" | "now") =>
    endAgent(entry, { processes, clock, directory: options.workDir, how })

  const words = async (): Promise<string> => {
    const lines = await options.lastWords()
    return lines.length === 0 ? "" : `; its last words: ${lines.join(" | ")}`
  }

  return {
    headStart: (order) => {
      ahead ??= startAhead(order)
    },
    launch: async (order) => {
      try {
        return await launch(order)
      } catch (error) {
        if (error instanceof LaunchError) throw error
        throw new LaunchError("setup", `OpenCode cannot be started: ${describeError(error)}`, error)
      }
    },
    stop: async () => {
      const early = await ahead
      ahead = undefined
      if (early) await drop(early)
    },
  }
}
