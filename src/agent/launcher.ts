/** The only code that starts OpenCode, takes over one that was left running, and ends either with all it started. */
import { chmodSync, closeSync, openSync } from "node:fs"
import { rename } from "node:fs/promises"
import { execa } from "execa"
import { type Clock, sleep } from "../lib/clock.ts"
import { describeError, type Log } from "../log.ts"
import { type AgentClient, createAgentClient } from "./client.ts"
import { endAgent, isOurs, MARK } from "./ending.ts"
import { checkConfig, LaunchError } from "./launch-error.ts"
import { choosePort } from "./port.ts"
import type { AgentUser, ProcessIdentity, Processes } from "./ports.ts"
import type { RunRecord, RunRecordFile } from "./run-record.ts"

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

export interface LaunchOrder {
  readonly binary: string
  readonly version: string
  readonly hash: string
  readonly processHash: string
  /** Given by the operator; else one is made for each process. */
  readonly password: string | undefined
  readonly environment: Readonly<Record<string, string>>
  /** Writes the files; called when nothing of an earlier OpenCode runs any more. */
  readonly prepare: () => Promise<void>
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
  readonly launch: (order: LaunchOrder) => Promise<RunningAgent>
}

const HEALTH_LIMIT_MS = 60_000
const HEALTH_POLL_MS = 50
const ADOPT_TRIES = 3
const ALIVE_POLL_MS = 500
const REAP_MS = 1000

export const createLauncher = (options: LauncherOptions): Launcher => {
  const { clock, log, processes, record } = options

  const launch = async (order: LaunchOrder): Promise<RunningAgent> => {
    const left = await record.read()
    const adopted = left && (await adopt(left, order))
    if (adopted) return adopted
    if (left) await endLeft(left)
    const port = await choosePort(options.url, processes)
    await order.prepare()
    order.signal.throwIfAborted()
    return start(order, port)
  }

  const start = async (order: LaunchOrder, port: number): Promise<RunningAgent> => {
    const { hostname } = options.url
    const password = order.password ?? crypto.randomUUID()
    const mark = crypto.randomUUID()
    // The log of the one before is kept for whoever looks into its end; two files are all there ever are.
    await rename(options.logFile, `${options.logFile}.1`).catch(() => {})
    const child = spawn(order, { port, password, mark })
    const identity = child.pid === undefined ? undefined : processes.find(child.pid)
    let end: string | undefined
    const exited = child.then((result) => {
      end = endOf(result)
      return { why: `OpenCode ${end}` }
    })
    if (!identity) {
      throw new LaunchError("exit", `${(await exited).why} at once${await words()}`)
    }
    const { pid, startTime } = identity
    const entry: RunRecord = {
      pid,
      startTime,
      url: `http://${hostname}:${port}`,
      password,
      mark,
      version: order.version,
      hash: order.hash,
      processHash: order.processHash,
    }
    await record.write(entry)
    const agent = asAgent(entry, exited, false)
    try {
      const version = await waitForHealth(agent.client, { order, pid, port, end: () => end })
      await checkConfig(agent.client)
      log.info("agent.healthy", { version, pid, url: entry.url })
      return { ...agent, version }
    } catch (error) {
      await agent.stop("now")
      throw error
    }
  }

  const spawn = (
    order: LaunchOrder,
    { port, password, mark }: { port: number; password: string; mark: string },
  ) => {
    // A file of its own, not a pipe through this process: OpenCode outlives the runner. Appending, so that the file
    // can be cut while it is written to. execa's types name only the standard descriptors.
    const output = openSync(options.logFile, "a", 0o600) as 1
    chmodSync(options.logFile, 0o600)
    const { hostname } = options.url
    const flags = [
      "--hostname",
      hostname,
      "--port",
      String(port),
      "--print-logs",
      "--log-level",
      "WARN",
    ]
    const child = execa(order.binary, ["serve", ...flags], {
      cwd: options.workDir,
      env: { ...order.environment, OPENCODE_SERVER_PASSWORD: password, [MARK]: mark },
      extendEnv: false,
      stdin: "ignore",
      stdout: output,
      stderr: output,
      buffer: false,
      reject: false,
      // A session of its own: a signal to the runner's group, or the runner's end, is not OpenCode's end.
      detached: true,
      cleanup: false,
      ...(options.user && { uid: options.user.uid, gid: options.user.gid }),
    })
    closeSync(output)
    return child
  }

  const waitForHealth = async (
    client: AgentClient,
    run: { order: LaunchOrder; pid: number; port: number; end: () => string | undefined },
  ): Promise<string> => {
    const limit = options.healthMs ?? HEALTH_LIMIT_MS
    const until = clock.now() + limit
    let last: unknown
    while (clock.now() < until) {
      run.order.signal.throwIfAborted()
      const end = run.end()
      if (end !== undefined) {
        throw new LaunchError("exit", `OpenCode ${end} before it was ready${await words()}`)
      }
      if (processes.listensOn(run.pid, run.port)) {
        try {
          return (await client.health()).version
        } catch (error) {
          last = error
        }
      }
      await sleep(clock, HEALTH_POLL_MS, run.order.signal)
    }
    const why = last === undefined ? "it does not listen" : describeError(last)
    throw new LaunchError(
      "timeout",
      `OpenCode runs but was not healthy within ${limit / 1000} s (${why})${await words()}`,
    )
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
    launch: async (order) => {
      try {
        return await launch(order)
      } catch (error) {
        if (error instanceof LaunchError) throw error
        throw new LaunchError("setup", `OpenCode cannot be started: ${describeError(error)}`, error)
      }
    },
  }
}

const endOf = (result: {
  signal?: string | undefined
  exitCode?: number | undefined
  shortMessage?: string | undefined
}): string => {
  if (result.signal !== undefined) return `was killed by ${result.signal}`
  if (result.exitCode !== undefined) return `exited with code ${result.exitCode}`
  return `could not be run (${result.shortMessage ?? "unknown"})`
}
