/** The agent as the daemon sees it: OpenCode kept running with the configuration that is wanted, and listened to. */
import { chmod, chown, mkdir, rm } from "node:fs/promises"
import { existsSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../lib/clock.ts"
import { createRing } from "../../lib/ring.ts"
import { createRedactor, describeError, type Log } from "../../lib/log.ts"
import { findOpenCode, pathWithRipgrep } from "./launch/binaries.ts"
import { type LaunchPlan, createLaunchPlans } from "./config/launch-plan.ts"
import { readCatalogue } from "./config/catalogue.ts"
import { checkCode } from "./config/check-code.ts"
import type { AgentClient } from "./client/client.ts"
import { isCarried, readConfigFiles } from "./config/config-files.ts"
import { embedConfigFiles } from "./config/embed.ts" with { type: "macro" }
import { type EventStreamOptions, runEventStream } from "./events/event-stream.ts"
import { waitForConfig } from "./launch/wait-for-config.ts"
import { checkConfig } from "./launch/launch-error.ts"
import { createLauncher, type RunningAgent } from "./launch/launcher.ts"
import { type Applied, createSupervisor } from "./launch/supervisor.ts"
import { followLog, type LogTail } from "./launch/log-tail.ts"
import { mcpSecrets } from "./config/mcp.ts"
import { defaultModel } from "./config/models.ts"
import type { AgentUser, Processes } from "./launch/interfaces.ts"
import { hasOtherConfig } from "./config/foreign-config.ts"
import { openRunRecord, RUN_RECORD } from "./launch/run-record.ts"
import type { RuntimeConfig } from "./config/compose-config.ts"
import type { ProviderModels } from "./client/types.ts"
import type { ProcessOrder } from "./launch/spawn.ts"
import { warmUp } from "./launch/warm-up.ts"
import { untilHung, type WatchOptions } from "./launch/hang-detector.ts"
import {
  agentDirectories,
  writeRooms,
  writeSettings,
  writeWorkspace,
} from "./config/config-directories.ts"

export interface AgentSettings {
  readonly stateDir: string
  readonly workDir: string
  readonly opencodeUrl: string
  readonly opencodeBin: string | undefined
  readonly opencodePassword: string | undefined
  readonly opencodeConfigSource: string
  readonly configWaitSeconds: number
  readonly configDrainSeconds: number
  readonly agentEnvAllow: readonly string[] | undefined
  readonly agentModels: readonly string[] | undefined
  readonly permissions: "allow" | "relay"
  readonly agentBashSeconds: number
  readonly model: string | undefined
  readonly environment: Readonly<Record<string, string | undefined>>
}

export interface AgentOptions {
  readonly settings: AgentSettings
  readonly ownVariables: ReadonlySet<string>
  readonly opencodeVersion: string
  /** This program itself. */
  readonly self: string
  /** For the agent's tools: where the runner's API is and what opens it. */
  readonly toolEnvironment: () => Readonly<Record<string, string>>
  /** Tools that lack what they need here. */
  readonly hiddenTools: readonly string[]
  /** Files of other parts that the agent always reads; patterns are allowed. */
  readonly instructionFiles?: readonly string[]
  /** Files of other parts that belong into OpenCode's configuration directory. */
  readonly installMore: (configDir: string) => Promise<void>
  /** Resolves when nothing takes the working directory's place any more, as a clone does. */
  readonly workDirReady: () => Promise<void>
  readonly processes: Processes
  readonly user: AgentUser | undefined
  /** Makes a directory and all in it the user's; nothing when the runner and the agent are one user. */
  readonly giveToUser: (path: string) => Promise<void>
  /** The same for one that may be large and theirs already. */
  readonly handOver: (path: string) => Promise<void>
  readonly memory: {
    readonly read: () => RuntimeConfig
    readonly write: (runtime: RuntimeConfig) => void
  }
  readonly onEvent: EventStreamOptions["onEvent"]
  readonly onGap: () => void
  readonly onFirstEvent: EventStreamOptions["onFirstEvent"]
  readonly room: EventStreamOptions["room"]
  readonly onReady: (ready: {
    readonly client: AgentClient
    readonly url: string
    readonly models: readonly ProviderModels[]
    readonly defaultModel: string | undefined
  }) => void
  readonly onLost: (why: string) => void
  readonly onFatal: (error: string) => void
  /** Lets no turn begin, and resolves when none runs; `onReady` or `goOn` ends it. */
  readonly quiet: () => Promise<void>
  readonly goOn: () => void
  readonly clock: Clock
  readonly log: Log
  readonly watch?: Pick<WatchOptions, "everyMs" | "misses">
}

export interface AgentStatus {
  readonly phase: string
  readonly pid: number | undefined
  /** The last lines that OpenCode wrote, secrets taken out. */
  readonly log: readonly string[]
}

export interface Agent {
  readonly begin: () => void
  readonly linkOpen: () => void
  readonly configure: (change: RuntimeConfig) => Promise<Applied>
  readonly status: () => AgentStatus
  readonly stop: () => Promise<void>
}

const LAST_WORDS = 8

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

  const blueprint = (runtime: RuntimeConfig): LaunchPlan =>
    createLaunchPlans({
      directories,
      files,
      ownFiles,
      catalogue,
      user: user && { ...user, home: existsSync(user.home) ? user.home : directories.home },
      opencodeVersion,
      workDir: settings.workDir,
      environment: settings.environment,
      environmentAllow: settings.agentEnvAllow ?? [],
      ownVariables: options.ownVariables,
      extraEnvironment: { ...options.toolEnvironment(), PATH: pathWithRipgrep(search) },
      permissions: settings.permissions,
      allowedModels: settings.agentModels,
      bashTimeoutMs: settings.agentBashSeconds * 1000,
      hiddenTools: options.hiddenTools,
      instructionFiles: options.instructionFiles ?? [],
    })(runtime)

  let tail: LogTail | undefined
  const follow = (made: LaunchPlan) => {
    tail?.stop()
    const redact = createRedactor([
      ...Object.values(made.settings.auth).map(({ key }) => key),
      ...mcpSecrets(made.runtime.mcpServers ?? {}),
    ])
    tail = followLog(
      {
        file: directories.logFile,
        clock,
        onLine: (line) => {
          const clean = redact(line)
          ring.push(clean)
          log.debug("agent.says", { line: clean.slice(0, 2000) })
        },
        onSkipped: (bytes) => log.warn("agent.log-skipped", { bytes }),
      },
      true,
    )
  }

  const launcher = createLauncher({
    url: new URL(settings.opencodeUrl),
    workDir: settings.workDir,
    logFile: directories.logFile,
    record: openRunRecord(join(settings.stateDir, RUN_RECORD)),
    processes,
    user,
    clock,
    log,
    lastWords: async () => {
      await tail?.catchUp()
      return ring.read(LAST_WORDS)
    },
  })

  const install = async (made: LaunchPlan): Promise<void> => {
    // Not before the working directory is there: what it holds is cloned.
    const isOurs = !hasOtherConfig(settings.workDir, made.environment["HOME"])
    const models = isOurs ? made.catalogue : undefined
    const leftOut = await writeWorkspace({
      directories,
      settings: made.settings,
      files: made.files,
      catalogue: models,
      opencodeVersion,
      checkCode: async (code) => {
        if (isCarried(made.files, ownFiles)) return new Map()
        // It is checked by whoever runs it later, and they must be able to read it.
        await options.giveToUser(`${directories.config}.new`)
        return checkCode(code, { runtime: options.self, owner: user })
      },
    })
    for (const { path, problem } of leftOut) log.error("agent.file-left-out", { path, problem })
    await options.installMore(directories.config)
    // Only what is new: OpenCode runs by now, and files of its own come and go.
    const { config, authFile, catalogueFile } = directories
    for (const path of [config, authFile, ...(models === undefined ? [] : [catalogueFile])])
      await options.giveToUser(path)
    await options.handOver(settings.workDir)
  }

  const makeRoom = async (): Promise<void> => {
    await options.workDirReady()
    await mkdir(settings.workDir, { recursive: true })
    await mkdir(directories.root, { recursive: true, mode: 0o700 })
    // Passing through is all that the agent's user may do here; what is the runner's own stays closed.
    if (user) {
      for (const path of [settings.stateDir, directories.root]) await chmod(path, 0o711)
      // Whoever owns it could put anything in the place of what the runner reads and writes there.
      await chown(directories.root, 0, 0)
    }
    await writeRooms(directories, opencodeVersion)
    for (const room of directories.rooms) await options.giveToUser(room)
    await options.handOver(settings.workDir)
  }

  const processOrder = (made: LaunchPlan): ProcessOrder => ({
    binary: findOpenCode(search),
    version: opencodeVersion,
    startHash: made.startHash,
    password: settings.opencodePassword,
    environment: made.environment,
    makeRoom,
  })

  /** What is known by now tells all that a process must have from its start; if it does not, nothing is lost. */
  const headStart = (): void => {
    try {
      launcher.headStart(processOrder(blueprint(options.memory.read())))
    } catch (error) {
      log.debug("agent.no-head-start", { error: describeError(error) })
    }
  }

  /** Prompts may come when it can be heard as well; it is asked for its models meanwhile. */
  const ready = async ({ client, url }: RunningAgent, heard?: Promise<void>): Promise<void> => {
    const [models] = await Promise.all([client.models(), heard])
    options.onReady({ client, url, models, defaultModel: defaultModel(models, settings.model) })
  }

  const life = createSupervisor({
    blueprint,
    known: options.memory.read(),
    remember: options.memory.write,
    launch: async (made, signal) => {
      follow(made)
      return launcher.launch({
        ...processOrder(made),
        hash: made.hash,
        prepare: () => install(made),
        // Another version has models of its own, and finds them when it finds no file.
        known: async (version) => {
          if (version !== opencodeVersion) await rm(directories.catalogueFile, { force: true })
        },
        signal,
      })
    },
    bringUp: async (agent, gone) => {
      const subscribed = Promise.withResolvers<void>()
      const stream = {
        client: agent.client,
        version: agent.version,
        clock,
        log,
        onEvent: options.onEvent,
        onSubscribed: (gap: boolean) => {
          subscribed.resolve()
          if (gap) options.onGap()
        },
        onFirstEvent: options.onFirstEvent,
        room: options.room,
      }
      void runEventStream(stream, gone)
      await ready(agent, subscribed.promise)
      if (!agent.adopted) void warmUp({ client: agent.client, clock, log }, gone)
    },
    reload: async (agent, gone, from, to) => {
      options.onLost("OpenCode reads its new configuration")
      await writeSettings(directories, to.settings)
      await options.giveToUser(directories.config)
      await changeAuth(agent, from, to)
      await agent.client.dispose()
      await checkConfig(agent.client)
      await ready(agent)
      void warmUp({ client: agent.client, clock, log }, gone)
    },
    untilHung: (agent, gone) => untilHung({ client: agent.client, clock, ...options.watch }, gone),
    onLost: options.onLost,
    onFatal: options.onFatal,
    quiet: options.quiet,
    goOn: options.goOn,
    drainMs: settings.configDrainSeconds * 1000,
    clock,
    log,
  })

  const first = waitForConfig(clock, settings.configWaitSeconds * 1000, life.start)

  return {
    begin: () => {
      headStart()
      first.begin()
    },
    linkOpen: first.linkOpen,
    configure: (change) => {
      first.arrived()
      return life.configure(change)
    },
    status: () => ({ phase: life.phase(), pid: life.pid(), log: ring.read() }),
    stop: async () => {
      first.arrived()
      await life.stop()
      await launcher.stop()
      tail?.stop()
    },
  }
}

/** The file with the keys is OpenCode's own while it runs: it is changed by asking. */
const changeAuth = async ({ client }: RunningAgent, from: LaunchPlan, to: LaunchPlan) => {
  const [before, after] = [from.settings.auth, to.settings.auth]
  for (const [provider, { key }] of Object.entries(after)) {
    if (before[provider]?.key !== key) await client.setAuth(provider, key)
  }
  for (const provider of Object.keys(before)) {
    if (!(provider in after)) await client.removeAuth(provider)
  }
}
