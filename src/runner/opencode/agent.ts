/** OpenCode as the daemon uses it: kept running with the requested configuration, its events delivered to callbacks. */
import { rm } from "node:fs/promises"
import { existsSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../lib/clock.ts"
import { sessionFolder } from "../../lib/state-folders.ts"
import { createRing } from "../../lib/ring.ts"
import { createRedactor, describeError, type Log } from "../../lib/log.ts"
import { findOpenCode, pathWithRipgrep } from "./launch/binaries.ts"
import { type LaunchPlan, launchPlanFor } from "./config/launch-plan.ts"
import { readCatalogue } from "./config/catalogue.ts"
import type { AgentClient } from "./client/client.ts"
import { readConfigFiles } from "./config/config-files.ts"
import { embedConfigFiles } from "./config/embed.ts" with { type: "macro" }
import { type EventStreamOptions, runEventStream } from "./events/event-stream.ts"
import { createConfigInstaller } from "./config/install-config.ts"
import { waitForConfig } from "./launch/wait-for-config.ts"
import { checkConfig } from "./launch/launch-error.ts"
import { createLauncher, type RunningAgent } from "./launch/launcher.ts"
import { type ConfigOutcome, createSupervisor } from "./launch/supervisor.ts"
import { followLog, type LogTail } from "./launch/log-tail.ts"
import type { Endpoint } from "./config/endpoints.ts"
import { mcpSecrets } from "./config/mcp.ts"
import { defaultModel, knownModel } from "./config/models.ts"
import type { AgentUser, Processes } from "./launch/interfaces.ts"
import { openRunRecord, RUN_RECORD } from "./launch/run-record.ts"
import type { BrokerAddress, RuntimeConfig } from "./config/compose-config.ts"
import type { ProviderModels } from "./client/types.ts"
import type { ProcessSpec } from "./launch/spawn.ts"
import { warmUp } from "./launch/warm-up.ts"
import { waitUntilHung, type WatchOptions } from "./launch/hang-detector.ts"
import { agentDirectories, writeConfig } from "./config/config-directories.ts"
import type { ToolSet } from "../../wire/operations/tool-sets.ts"

export interface AgentSettings {
  readonly stateDir: string
  readonly workDir: string
  readonly opencodeUrl: string
  /** The names of the settings that a person has set. */
  readonly given: ReadonlySet<string>
  readonly opencodeBin: string | undefined
  readonly opencodePassword: string | undefined
  readonly opencodeConfigSource: string
  readonly configWaitSeconds: number
  readonly configDrainSeconds: number
  readonly agentEnvAllow: readonly string[] | undefined
  readonly agentModels: readonly string[] | undefined
  readonly permissions: "allow" | "relay"
  readonly isOrchestrator: boolean
  readonly agentBashSeconds: number
  readonly model: string | undefined
  readonly toolSet: ToolSet | undefined
  readonly environment: Readonly<Record<string, string | undefined>>
}

export interface AgentOptions {
  readonly settings: AgentSettings
  readonly opencodeVersion: string
  /** Path of this program. */
  readonly self: string
  /** For the agent's tools: the URL of the runner's API and its token. */
  readonly toolEnvironment: () => Readonly<Record<string, string>>
  /** Model endpoints with their models; the default is what the environment names. */
  readonly endpoints?: readonly Endpoint[] | undefined
  /** Where OpenCode sends its model calls; the address is read for every plan. */
  readonly broker: () => BrokerAddress
  /** Gives the providers of a configuration to the broker, before OpenCode uses them. */
  readonly setUpstreams: (
    upstreams: LaunchPlan["config"]["upstreams"],
    services: LaunchPlan["config"]["services"],
  ) => Promise<void>
  /** Tools that cannot work in this sandbox, such as those without an API key. */
  readonly hiddenTools: readonly string[]
  /** Tools outside the chosen set, which the session agent may turn on. */
  readonly unusedTools: readonly string[]
  /** Files of other components that the agent always reads; glob patterns are allowed. */
  readonly instructionFiles?: readonly string[]
  /** The program that runs the agent's commands. Absent: OpenCode chooses. */
  readonly shell?: string | undefined
  /** Adds files of other components to OpenCode's config directory. */
  readonly installExtraFiles: (configDir: string) => Promise<void>
  /** Resolves when the working directory will not be replaced any more, as a clone does. */
  readonly workDirReady: () => Promise<void>
  readonly processes: Processes
  readonly user: AgentUser | undefined
  /** Changes the owner of a directory and its content; does nothing when runner and agent are the same user. */
  readonly giveToUser: (path: string) => Promise<void>
  /** The same for the working directory, which may be large: skipped when the user owns it already. */
  readonly giveWorkDirToUser: (path: string) => Promise<void>
  /** The configuration in force, kept across restarts of the runner. */
  readonly savedConfig: {
    readonly read: () => RuntimeConfig
    readonly write: (config: RuntimeConfig) => void
  }
  readonly onEvent: EventStreamOptions["onEvent"]
  readonly onStreamGap: EventStreamOptions["onStreamGap"]
  readonly onFirstEvent: EventStreamOptions["onFirstEvent"]
  readonly backpressure: EventStreamOptions["backpressure"]
  readonly onReady: (ready: {
    readonly client: AgentClient
    readonly url: string
    readonly models: readonly ProviderModels[]
    readonly defaultModel: string | undefined
    /** False if a newer configuration is requested: turns wait until OpenCode has it. */
    readonly mayStartTurns: boolean
  }) => void
  readonly onLost: (why: string) => void
  readonly onFatal: (error: string) => void
  /** Starts no further turn; resolves when none runs. `onReady` with `mayStartTurns`, or `resumeTurns`, lifts it. */
  readonly pauseTurns: () => Promise<void>
  readonly resumeTurns: () => void
  readonly clock: Clock
  readonly log: Log
  readonly watch?: Pick<WatchOptions, "everyMs" | "misses">
}

export interface AgentStatus {
  readonly phase: string
  readonly pid: number | undefined
  /** The last lines of OpenCode's log, with secrets redacted. */
  readonly log: readonly string[]
}

export interface Agent {
  readonly begin: () => void
  readonly linkOpen: () => void
  readonly configure: (change: RuntimeConfig) => Promise<ConfigOutcome>
  readonly status: () => AgentStatus
  readonly stop: () => Promise<void>
}

/** Log lines quoted in the error of a failed start. */
const QUOTED_LOG_LINES = 8

export const createAgent = (options: AgentOptions): Agent => {
  const { settings, clock, log, user, processes, opencodeVersion } = options
  const directories = agentDirectories(settings.stateDir)
  const ring = createRing({ lines: 500, lineLength: 2000 })
  const search = {
    opencodeBin: settings.opencodeBin,
    path: settings.environment["PATH"] ?? "",
    self: options.self,
  }
  const source = settings.opencodeConfigSource
  const ownFiles = embedConfigFiles()
  const files = existsSync(source) ? readConfigFiles(source) : ownFiles
  const catalogue = readCatalogue(opencodeVersion)
  const installer = createConfigInstaller({
    ...options,
    directories,
    stateDir: settings.stateDir,
    workDir: settings.workDir,
    ownFiles,
  })

  const makePlan = (runtime: RuntimeConfig): LaunchPlan =>
    launchPlanFor({
      directories,
      files,
      ownFiles,
      catalogue,
      user: user && { ...user, home: existsSync(user.home) ? user.home : directories.home },
      opencodeVersion,
      workDir: settings.workDir,
      environment: settings.environment,
      broker: options.broker(),
      environmentAllow: settings.agentEnvAllow ?? [],
      extraEnvironment: { ...options.toolEnvironment(), PATH: pathWithRipgrep(search) },
      endpoints: options.endpoints,
      permissions: settings.permissions,
      isOrchestrator: settings.isOrchestrator,
      allowedModels: settings.agentModels,
      bashTimeoutMs: settings.agentBashSeconds * 1000,
      hiddenTools: options.hiddenTools,
      unusedTools: options.unusedTools,
      toolSet: settings.toolSet ?? "all",
      instructionFiles: options.instructionFiles ?? [],
      shell: options.shell,
    })(runtime)

  let tail: LogTail | undefined
  /** Restarted for each plan, because each plan has other secrets to redact. */
  const followLogOf = (plan: LaunchPlan) => {
    tail?.stop()
    const redact = createRedactor([
      ...Object.values(plan.config.auth).map(({ key }) => key),
      ...Object.values(plan.config.upstreams).flatMap(({ key }) => key ?? []),
      ...mcpSecrets(plan.runtime.mcpServers ?? {}),
    ])
    tail = followLog({
      file: directories.logFile,
      clock,
      onLine: (line) => {
        const redacted = redact(line)
        ring.push(redacted)
        log.debug("agent.log", { line: redacted.slice(0, 2000) })
      },
      onSkipped: (bytes) => log.warn("agent.log-skipped", { bytes }),
    })
  }

  const launcher = createLauncher({
    url: new URL(settings.opencodeUrl),
    isDefaultUrl: !settings.given.has("opencodeUrl"),
    workDir: settings.workDir,
    logFile: directories.logFile,
    record: openRunRecord(join(sessionFolder(settings.stateDir), RUN_RECORD)),
    processes,
    user,
    clock,
    log,
    lastLogLines: async () => {
      await tail?.catchUp()
      return ring.read(QUOTED_LOG_LINES)
    },
  })

  const processSpec = (plan: LaunchPlan): ProcessSpec => ({
    binary: findOpenCode(search),
    version: opencodeVersion,
    startHash: plan.startHash,
    password: settings.opencodePassword,
    environment: plan.environment,
    prepareDirectories: installer.prepareDirectories,
  })

  /** Starts OpenCode early with the saved configuration; `launch` discards the process if the real one needs another. */
  const prestart = (): void => {
    try {
      launcher.prestart(processSpec(makePlan(options.savedConfig.read())))
    } catch (error) {
      log.debug("agent.prestart-failed", { error: describeError(error) })
    }
  }

  /** Prompts are accepted when the event stream is open and the models are known. */
  const reportReady = async (
    { client, url }: RunningAgent,
    subscribed?: Promise<void>,
  ): Promise<void> => {
    const [models, configured] = await Promise.all([
      client.models(),
      client.configuredModel(),
      subscribed,
    ])
    const preferred = settings.model ?? knownModel(models, configured)
    options.onReady({
      client,
      url,
      models,
      defaultModel: defaultModel(models, preferred),
      mayStartTurns: !supervisor.isSuperseded(),
    })
  }

  const supervisor = createSupervisor({
    makePlan,
    savedConfig: options.savedConfig.read(),
    saveConfig: options.savedConfig.write,
    launch: async (plan, signal) => {
      followLogOf(plan)
      const brokered = options.setUpstreams(plan.config.upstreams, plan.config.services)
      const running = await launcher.launch({
        ...processSpec(plan),
        hash: plan.hash,
        writeConfig: () => installer.writeConfig(plan),
        // The catalogue is the pinned version's. Without the file another version uses its own.
        onVersion: async (version) => {
          if (version !== opencodeVersion) await rm(directories.catalogueFile, { force: true })
        },
        signal,
      })
      await brokered
      return running
    },
    connect: async (agent, gone) => {
      const subscribed = Promise.withResolvers<void>()
      const stream = {
        client: agent.client,
        version: agent.version,
        clock,
        log,
        onEvent: options.onEvent,
        onSubscribed: subscribed.resolve,
        onStreamGap: options.onStreamGap,
        onFirstEvent: options.onFirstEvent,
        backpressure: options.backpressure,
      }
      void runEventStream(stream, gone)
      await reportReady(agent, subscribed.promise)
      if (!agent.adopted) void warmUp({ client: agent.client, clock, log }, gone)
    },
    reload: async (agent, gone, from, to) => {
      options.onLost("OpenCode reads its new configuration")
      await options.setUpstreams(to.config.upstreams, to.config.services)
      await writeConfig(directories, to.config)
      await options.giveToUser(directories.config)
      await changeAuth(agent, from, to)
      await agent.client.dispose()
      await checkConfig(agent.client)
      await reportReady(agent)
      void warmUp({ client: agent.client, clock, log }, gone)
    },
    waitUntilHung: (agent, gone) =>
      waitUntilHung({ client: agent.client, clock, ...options.watch }, gone),
    onLost: options.onLost,
    onFatal: options.onFatal,
    pauseTurns: options.pauseTurns,
    resumeTurns: options.resumeTurns,
    pauseTimeoutMs: settings.configDrainSeconds * 1000,
    clock,
    log,
  })

  const firstConfig = waitForConfig(clock, settings.configWaitSeconds * 1000, supervisor.start)

  return {
    begin: () => {
      prestart()
      firstConfig.begin()
    },
    linkOpen: firstConfig.linkOpen,
    configure: (change) => {
      firstConfig.cancel()
      return supervisor.configure(change)
    },
    status: () => ({ phase: supervisor.phase(), pid: supervisor.pid(), log: ring.read() }),
    stop: async () => {
      firstConfig.cancel()
      await supervisor.stop()
      await launcher.stop()
      tail?.stop()
    },
  }
}

/** OpenCode owns auth.json while it runs, so keys are changed through its API. */
const changeAuth = async ({ client }: RunningAgent, from: LaunchPlan, to: LaunchPlan) => {
  const [before, after] = [from.config.auth, to.config.auth]
  for (const [provider, { key }] of Object.entries(after)) {
    if (before[provider]?.key !== key) await client.setAuth(provider, key)
  }
  for (const provider of Object.keys(before)) {
    if (!(provider in after)) await client.removeAuth(provider)
  }
}
