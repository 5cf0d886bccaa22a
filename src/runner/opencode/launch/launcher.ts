/** Starts OpenCode, takes over a process that an earlier runner left running, and ends either with all its descendants. */
import { type Clock, sleep } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import { type AgentClient, createAgentClient } from "../client/client.ts"
import { choosePort } from "./free-port.ts"
import { waitForHealth } from "./health.ts"
import type { AgentUser, ProcessIdentity, Processes } from "./interfaces.ts"
import { checkConfig, LaunchError } from "./launch-error.ts"
import type { RunRecord, RunRecordFile } from "./run-record.ts"
import { type ProcessSpec, type SpawnedProcess, spawnAgent } from "./spawn.ts"
import { isRecordedProcess, terminateAgent } from "./terminate.ts"

export interface LauncherOptions {
  readonly url: URL
  /** If the default port is taken, another one is used; a port that a person has chosen is waited for. */
  readonly isDefaultUrl: boolean
  readonly workDir: string
  readonly logFile: string
  readonly record: RunRecordFile
  readonly processes: Processes
  readonly user: AgentUser | undefined
  readonly clock: Clock
  readonly log: Log
  /** The last lines that OpenCode wrote to its log. */
  readonly lastLogLines: () => Promise<readonly string[]>
  readonly healthTimeoutMs?: number
}

export interface LaunchSpec extends ProcessSpec {
  readonly hash: string
  readonly writeConfig: () => Promise<void>
  /** Called when OpenCode is healthy and has not read its configuration yet. */
  readonly onVersion: (version: string) => Promise<void>
  readonly signal: AbortSignal
}

export interface RunningAgent {
  readonly client: AgentClient
  readonly version: string
  readonly pid: number
  readonly url: string
  /** True if an earlier runner started the process. */
  readonly adopted: boolean
  /** Resolves when the process is gone, for any reason. */
  readonly exited: Promise<{ readonly why: string }>
  /** Stores the hash of the configuration that the process runs with, for the next runner. */
  readonly recordConfigHash: (hash: string) => Promise<void>
  /** Ends the process and its descendants. `now` kills at once, for a process that does not respond. */
  readonly stop: (how: "gently" | "now") => Promise<void>
}

export interface Launcher {
  /**
   * Starts a process before its configuration is known. The next `launch` uses it if its `startHash` fits, else ends
   * it. Does nothing while there is a record of an earlier runner's process, which may be adopted instead.
   */
  readonly prestart: (spec: ProcessSpec) => void
  readonly launch: (spec: LaunchSpec) => Promise<RunningAgent>
  /** Ends a prestarted process that no launch has used. */
  readonly stop: () => Promise<void>
}

const HEALTH_TIMEOUT_MS = 60_000
const ADOPT_ATTEMPTS = 3
const ALIVE_POLL_MS = 500
const REAP_MS = 1000

export const createLauncher = (options: LauncherOptions): Launcher => {
  const { clock, log, processes, record: recordFile } = options
  let prestarted: Promise<SpawnedProcess | undefined> | undefined

  const launch = async (spec: LaunchSpec): Promise<RunningAgent> => {
    const early = await takePrestarted(spec)
    // OpenCode reads its configuration at the first request, so the files can be written while it starts.
    if (early) return waitUntilReady(early, spec, spec.writeConfig())
    const previous = await recordFile.read()
    const adopted = previous && (await adopt(previous, spec))
    if (adopted) return adopted
    if (previous) await endPrevious(previous)
    return waitUntilReady(await start(spec, spec.writeConfig), spec)
  }

  const start = async (
    spec: ProcessSpec,
    writeConfig?: () => Promise<void>,
  ): Promise<SpawnedProcess> => {
    const port = await choosePort(
      {
        url: options.url,
        isDefault: options.isDefaultUrl,
        onTaken: (fact) => log.warn("agent.port-taken", fact),
      },
      processes,
    )
    await spec.prepareDirectories()
    await writeConfig?.()
    return spawnAgent(spec, port, { ...options, hostname: options.url.hostname })
  }

  const startEarly = async (spec: ProcessSpec): Promise<SpawnedProcess | undefined> => {
    try {
      return (await recordFile.read()) ? undefined : await start(spec)
    } catch (error) {
      // The launch fails in the same way and reports it.
      log.debug("agent.prestart-failed", { error: describeError(error) })
      return undefined
    }
  }

  const takePrestarted = async (spec: LaunchSpec): Promise<SpawnedProcess | undefined> => {
    const early = await prestarted
    prestarted = undefined
    if (!early) return undefined
    if (early.record.startHash === spec.startHash && early.exitReason() === undefined) return early
    await discard(early)
    return undefined
  }

  const discard = ({ record, exited }: SpawnedProcess) =>
    toRunningAgent(record, exited, false).stop("now")

  const waitUntilReady = async (
    { record, exitReason, exited }: SpawnedProcess,
    spec: LaunchSpec,
    configWritten?: Promise<void>,
  ): Promise<RunningAgent> => {
    const agent = toRunningAgent(record, exited, false)
    try {
      await configWritten
      const version = await waitForHealth({
        client: agent.client,
        isListening: () => processes.listensOn(record.pid, portOf(record)),
        exitReason,
        describeLog,
        timeoutMs: options.healthTimeoutMs ?? HEALTH_TIMEOUT_MS,
        clock,
        signal: spec.signal,
      })
      await spec.onVersion(version)
      await checkConfig(agent.client)
      await agent.recordConfigHash(spec.hash)
      log.info("agent.healthy", { version, pid: record.pid, url: record.url })
      return { ...agent, version }
    } catch (error) {
      await agent.stop("now")
      throw error
    }
  }

  /** Takes over an earlier runner's process if it is alive, healthy and has the requested configuration. */
  const adopt = async (
    previous: RunRecord,
    spec: LaunchSpec,
  ): Promise<RunningAgent | undefined> => {
    if (!isRecordedProcess(previous, processes)) return undefined
    const isAsRequested =
      previous.hash === spec.hash &&
      previous.version === spec.version &&
      (spec.password === undefined || spec.password === previous.password)
    if (!isAsRequested || !processes.listensOn(previous.pid, portOf(previous))) return undefined
    const agent = toRunningAgent(previous, pollUntilGone(previous), true)
    for (let attempt = 0; attempt < ADOPT_ATTEMPTS; attempt += 1) {
      try {
        const { version } = await agent.client.health()
        log.info("agent.adopted", { pid: previous.pid, url: previous.url, version })
        return { ...agent, version }
      } catch (error) {
        log.warn("agent.adopt-failed", { pid: previous.pid, error: describeError(error) })
      }
    }
    return undefined
  }

  /** An adopted process is not a child of this one, so its exit can only be polled. */
  const pollUntilGone = async (identity: ProcessIdentity): Promise<{ why: string }> => {
    while (processes.isAlive(identity)) await sleep(clock, ALIVE_POLL_MS)
    return { why: "OpenCode ended" }
  }

  /** Runs even if the process itself is gone: its descendants may still run. */
  const endPrevious = async (previous: RunRecord) => {
    const wasAlive = isRecordedProcess(previous, processes)
    const ended = await terminate(previous, "gently")
    if (wasAlive || ended > 0)
      log.info("agent.previous-ended", { pid: previous.pid, processes: ended })
    await recordFile.clear()
  }

  const toRunningAgent = (
    record: RunRecord,
    exited: Promise<{ readonly why: string }>,
    adopted: boolean,
  ): RunningAgent => {
    let latest = record
    return {
      client: createAgentClient({
        url: record.url,
        password: record.password,
        directory: options.workDir,
      }),
      version: record.version,
      pid: record.pid,
      url: record.url,
      adopted,
      exited,
      recordConfigHash: async (hash) => {
        latest = { ...latest, hash }
        await recordFile.write(latest)
      },
      stop: async (how) => {
        const ended = await terminate(record, how)
        // A child whose exit code was not read stays a zombie when this process ends.
        await Promise.race([exited, sleep(clock, REAP_MS)])
        log.info("agent.stopped", { pid: record.pid, processes: ended })
        await recordFile.clear()
      },
    }
  }

  const terminate = (record: RunRecord, how: "gently" | "now") =>
    terminateAgent(record, { processes, clock, directory: options.workDir, how })

  const describeLog = async (): Promise<string> => {
    const lines = await options.lastLogLines()
    return lines.length === 0 ? "" : `; its last log lines: ${lines.join(" | ")}`
  }

  return {
    prestart: (spec) => {
      prestarted ??= startEarly(spec)
    },
    launch: async (spec) => {
      try {
        return await launch(spec)
      } catch (error) {
        if (error instanceof LaunchError) throw error
        throw new LaunchError("setup", `OpenCode cannot be started: ${describeError(error)}`, error)
      }
    },
    stop: async () => {
      const early = await prestarted
      prestarted = undefined
      if (early) await discard(early)
    },
  }
}

const portOf = ({ url }: RunRecord): number => Number(new URL(url).port)
