/**
 * Creates every component of the runner and joins them; starts and stops them in order. Logic belongs in the components,
 * not here.
 */
import { join } from "node:path"
import manifest from "../../package.json"
import { type Clock, systemClock, within } from "../lib/clock.ts"
import { createLate } from "../lib/late.ts"
import { describeError, type Log } from "../lib/log.ts"
import { runCommand } from "../lib/run-command.ts"
import { selfCommand } from "../lib/self-command.ts"
import { openStateDb, readFact, writeFact, writeOut } from "../lib/state-db.ts"
import type { Settings } from "../settings/settings.ts"
import { ownVariables } from "../settings/table.ts"
import { toolsOffIn } from "../wire/operations/tool-sets.ts"
import { createApplyConfig } from "./apply-config.ts"
import { createBrokerSupervisor } from "./broker/broker-supervisor.ts"
import { PARALLEL, type Service } from "./broker/services.ts"
import type { Channels } from "./channels/channels.ts"
import { openChannelStore } from "./channels/channel-store.ts"
import { openJobStore } from "./channels/job-store.ts"
import { createCommandHandler } from "./commands/index.ts"
import { createCurrentSettings } from "./current-settings.ts"
import { bootToken } from "./gateway/api-token.ts"
import type { Gateway } from "./gateway/gateway.ts"
import { boxOrigin, originFor } from "./gateway/hosts.ts"
import type { PageOptions } from "./gateway/page/page-door.ts"
import { createLinkMetrics } from "./gateway/link-metrics.ts"
import { readBootId } from "./host/boot-id.ts"
import { watchForRestore } from "./host/detect-restore.ts"
import { createHost } from "./host/host.ts"
import { plannedDirectory } from "./host/prepare-repositories.ts"
import { createProcesses } from "./host/processes.ts"
import type { MissingProgram } from "./host/services.ts"
import { createHibernation, type Hibernation } from "./host/snapshot-hooks.ts"
import { chooseAgentUser, giveTo, handOver } from "./host/users.ts"
import { joinChannels } from "./join-channels.ts"
import { joinEgress } from "./join-egress.ts"
import { joinGateway } from "./join-gateway.ts"
import { joinServices } from "./join-services.ts"
import { joinWorkflows } from "./join-workflows.ts"
import { createLink } from "./link/link.ts"
import { createOutbox } from "./link/outbox.ts"
import { openOutboxStore, readEpoch } from "./link/outbox-store.ts"
import { type Agent, createAgent } from "./opencode/agent.ts"
import { agentDirectories } from "./opencode/config/config-directories.ts"
import type { Endpoint } from "./opencode/config/endpoints.ts"
import { agentEnvironment } from "./opencode/launch/environment.ts"
import type { WatchOptions } from "./opencode/launch/hang-detector.ts"
import type { MayFetch } from "./prompt/fetch-file.ts"
import { createGitIdentities } from "./prompt/git-identity.ts"
import { createReadiness, type Readiness } from "./readiness.ts"
import { createGit } from "./sandbox/git.ts"
import { openSecrets } from "./sandbox/open-secrets.ts"
import { createChangeReporter } from "./sandbox/report-changes.ts"
import { createRunCommand } from "./sandbox/run-command.ts"
import { createWorkspace } from "./sandbox/workspace-changes.ts"
import { createV1Supervisor } from "./sandbox/v1/supervisor.ts"
import { scrubSecrets } from "./snapshot-secrets.ts"
import { missingNeeds } from "./tool-needs.ts"
import type { Executions } from "./workflow/executions.ts"
import { runFromShell } from "./workflow/shell-runs.ts"
import { channelOf } from "./workflow/steps.ts"

export interface DaemonOptions {
  readonly config: Settings
  /** Address and token of the session agent: from the settings, or those of a hub in this process. */
  readonly link: { readonly url: string; readonly token: string }
  readonly version: string
  readonly log: Log
  readonly clock?: Clock
  /** Reads the settings again after a restore, when the platform may have replaced secrets. */
  readonly readAgain?: () => Settings
  /** The command that starts this program; git starts it as its credential helper. */
  readonly self?: readonly string[]
  /** Ports of other servers of this process, such as the demo model, with their owners: no tunnel may use them. */
  readonly reservedPorts?: ReadonlyMap<number, string>
  /** The page, which the gateway serves on a host of its own. */
  readonly page?: PageOptions
  /** Model endpoints with their models; the default is what the environment names. */
  readonly endpoints?: readonly Endpoint[]
  /** Which addresses attachments may be fetched from; by default none of this machine. */
  readonly mayFetch?: MayFetch
  /** When an OpenCode that does not respond counts as hung; the default is about half a minute. */
  readonly watch?: Pick<WatchOptions, "everyMs" | "misses">
}

/** Why the runner ends, and the exit code. */
export interface Ending {
  readonly code: number
  readonly why: string
}

export interface Daemon {
  /** Resolves when the gateway listens and the link is dialling; the agent starts in the background. */
  readonly start: () => Promise<Gateway>
  /** Resolves when the runner should end: the session is over, the link was refused, or `stop` has finished. */
  readonly done: Promise<Ending>
  readonly stop: (ending: Ending) => Promise<void>
  /** Programs that the requested services need and that are not installed. */
  readonly missingPrograms: () => readonly MissingProgram[]
  /** The model of prompts that name none, once OpenCode is ready. */
  readonly model: () => string | undefined
}

/** The pinned OpenCode version: files prepared for OpenCode must name exactly this version. */
const OPENCODE_VERSION = manifest.dependencies["opencode-ai"]
const OUTBOX_BYTES = 64 * 1024 * 1024
/** A shutdown takes at most the sum of these, below the ten seconds that a platform waits. */
const SETTLE_MS = 4000
const PROCESSES_MS = 3000
const FLUSH_MS = 1500
const CLOSE_MS = 500
const SYNC_MS = 30_000
const RUNTIME_FACT = "agent.runtime"
const API_TOKEN_FACT = "agent.api-token"
const BROKER_FACT = "agent.broker"
const EGRESS_FACT = "agent.egress"

export const createDaemon = (options: DaemonOptions): Daemon => {
  const { config, log, clock = systemClock } = options
  const db = openStateDb(config.stateDir)
  const done = Promise.withResolvers<Ending>()
  const stopped = new AbortController()
  const settings = createCurrentSettings({ initial: config, readAgain: options.readAgain, log })
  /** Required by every route below /api; only the agent's tools receive it. */
  const apiToken = bootToken(readBootId(), {
    read: () => readFact(db, API_TOKEN_FACT),
    write: (text) => writeFact(db, API_TOKEN_FACT, text),
  })
  /** Components that the link and the host need and that need the link and the host themselves. */
  const joined = createLate<Joined>("the runner's components")
  let gateway: Gateway | undefined

  const linkLog = log.child({ component: "link" })
  const outbox = createOutbox({
    // One transaction: a frame and the turn or workflow state that it reports.
    store: openOutboxStore(db, {
      write: () => {
        joined.get().channels.persist()
        joined.get().workflows.persist()
      },
      done: () => {
        joined.get().channels.persisted()
        joined.get().workflows.persisted()
      },
    }),
    maxBytes: OUTBOX_BYTES,
    onStoreFailure: (error) => linkLog.error("link.not-stored", { error: describeError(error) }),
  })
  const linkMetrics = createLinkMetrics()
  const link = createLink({
    ...options.link,
    sessionId: config.sessionId,
    version: options.version,
    epoch: readEpoch(db, () => crypto.randomUUID()),
    outbox,
    clock,
    log: linkLog,
    gatewayUrl: () => gatewayUrlOf(config, gateway?.port, options.page),
    active: () => joined.get().channels.active(),
    onFrame: (frame) => {
      // A frame that arrives during shutdown is not acknowledged: the next runner receives it again.
      if (stopped.signal.aborted) return
      joined.get().hibernation.whenAwake(() => joined.get().inbound(frame))
    },
    onConnected: () => {
      joined.get().agent.linkOpen()
      joined.get().readiness.connected()
      gateway?.announceTunnels()
      joined.get().readiness.sendModels()
    },
    taps: [linkMetrics.onFrameSent, (frame) => joined.get().channels.onFrameSent(frame)],
    onEnd: (code, why) => done.resolve({ code, why }),
  })

  const self = options.self ?? selfCommand()
  const user = chooseAgentUser(config.agentUser, process.getuid?.() === 0)
  const workDir = plannedDirectory(config.workDir, config.repositories)
  const gitIdentities = createGitIdentities(join(config.stateDir, "opencode", "git-identities"))
  const sessions = openChannelStore(db)
  const jobs = openJobStore(db)
  const channels = joinChannels({
    mayFetch: options.mayFetch,
    config,
    sessions,
    jobs,
    link,
    send: link.send,
    onTurnFiles: (files) => changes.turnEnded(files),
    workDir,
    self,
    user,
    gitIdentities,
    clock,
    log: log.child({ component: "channels" }),
  })
  const readiness = createReadiness({
    clock,
    send: link.send,
    linkState: link.state,
    channelStatus: channels.status,
  })

  const egress = joinEgress({
    config,
    user,
    bootId: readBootId(),
    memory: {
      read: () => readFact(db, EGRESS_FACT),
      write: (text) => writeFact(db, EGRESS_FACT, text),
    },
    send: link.send,
    log: log.child({ component: "egress" }),
  })
  const agentVariables = { ...config.environment, ...egress.variables }
  const environment = agentEnvironment({
    environment: agentVariables,
    allow: config.agentEnvAllow ?? [],
    own: ownVariables,
  })
  const git = createGit({ workDir, environment, user, clock })
  const workspace = createWorkspace(git)
  const changes = createChangeReporter({
    workDir,
    git,
    workspace,
    send: link.send,
    clock,
    log: log.child({ component: "workspace" }),
  })
  const secrets = openSecrets({
    ...config,
    secretsToken: () => settings.get().secretsToken,
    environment,
    owner: user,
    clock,
  })
  const joinedServices = joinServices({
    config,
    db,
    workDir,
    environment,
    user,
    secrets,
    clock,
    log: log.child({ component: "services" }),
  })
  const v1 = createV1Supervisor({
    self,
    root: config.workDir,
    user,
    environment: () => ({
      ...environment,
      ...(user && { USER: user.name, HOME: user.home }),
      SANDPIPER_URL: `http://127.0.0.1:${gateway?.port ?? config.gatewayPort}`,
      SANDPIPER_API_TOKEN: apiToken,
    }),
    clock,
    log: log.child({ component: "v1" }),
  })
  const workflows = joinWorkflows({
    db,
    channels,
    link,
    runCommand: createRunCommand({
      workDir,
      environment: {
        ...environment,
        ...(user && { USER: user.name, HOME: user.home }),
        SANDPIPER_API_TOKEN: apiToken,
      },
      owner: user,
      clock,
    }),
    clock,
    log: log.child({ component: "workflow" }),
  })
  const host = createHost({
    config,
    current: settings.get,
    self,
    apiToken,
    user,
    environment,
    clock,
    log: log.child({ component: "host" }),
    memory: {
      read: (name) => readFact(db, name),
      write: (name, value) => writeFact(db, name, value),
    },
    setComponent: readiness.setComponent,
    runHook: (hook) => joined.get().hibernation.runHook(hook),
    runWorkflow: (order, caller, gone) => runFromShell(workflows, order, caller, gone),
  })

  /** Of prompts that name none; known when OpenCode is ready. */
  let model: string | undefined
  const toolsOff = toolsOffIn(config.toolSet ?? "all", missingNeeds(config))
  const broker = createBrokerSupervisor({
    self,
    stateDir: config.stateDir,
    bootId: readBootId(),
    version: options.version,
    memory: {
      read: () => readFact(db, BROKER_FACT),
      write: (text) => writeFact(db, BROKER_FACT, text),
    },
    environment: config.environment,
    clock,
    log: log.child({ component: "broker" }),
  })
  const agent = createAgent({
    settings: { ...config, environment: agentVariables, workDir },
    broker: () => broker.address,
    setUpstreams: (models, services) =>
      broker.setUpstreams(models, { ...services, ...parallelService(settings.get()) }),
    ownVariables,
    opencodeVersion: OPENCODE_VERSION,
    self: process.execPath,
    toolEnvironment: () => ({
      SANDPIPER_URL: `http://127.0.0.1:${gateway?.port ?? config.gatewayPort}`,
      SANDPIPER_API_TOKEN: apiToken,
      ...toolVariables(settings.get(), broker.address),
    }),
    endpoints: options.endpoints,
    hiddenTools: toolsOff.impossible,
    unusedTools: toolsOff.optional,
    instructionFiles: [host.personaFiles],
    processes: createProcesses(clock),
    installExtraFiles: async (configDir) => {
      await host.prepared()
      await gitIdentities.installPlugin(configDir)
    },
    workDirReady: host.directoryReady,
    user,
    giveToUser: async (path) => user && giveTo(path, user),
    giveWorkDirToUser: async (path) => user && handOver(path, user),
    savedConfig: {
      read: () => JSON.parse(readFact(db, RUNTIME_FACT) ?? "{}"),
      write: (runtime) => writeFact(db, RUNTIME_FACT, JSON.stringify(runtime)),
    },
    onEvent: channels.agentEvent,
    onStreamGap: () => {
      linkMetrics.onEventStreamLost()
      channels.streamGap()
    },
    onFirstEvent: channels.streamGap,
    backpressure: link.room,
    onReady: ({ client, url, models, defaultModel }) => {
      model = defaultModel
      channels.agentReady({ client, defaultModel, models })
      readiness.agentReady(
        url,
        models.map((provider) => ({ ...provider, models: [...provider.models] })),
      )
      void joinedServices.autostart()
    },
    onLost: (why) => {
      readiness.agentLost(why)
      channels.agentLost(why)
    },
    onFatal: readiness.agentFailed,
    pauseTurns: channels.pauseTurns,
    resumeTurns: channels.resumeTurns,
    clock,
    log: log.child({ component: "agent" }),
    ...(options.watch && { watch: options.watch }),
  })

  const applyConfig = createApplyConfig({
    agent,
    channels,
    send: link.send,
    log: log.child({ component: "agent" }),
  })
  const inbound = createCommandHandler({
    channels,
    workflows,
    jobs,
    agentSessionIds: sessions.all,
    workspacePatches: workspace.readPatches,
    snapshots: { directory: join(agentDirectories(config.stateDir).data, "snapshot"), git },
    send: link.send,
    reportState: readiness.reportOnRequest,
    clock,
    configure: (change) => void applyConfig(change),
    stop: () => done.resolve({ code: 0, why: "the session agent requested a stop" }),
    deleteTunnel: async (name) => gateway?.deleteTunnel(name),
    log: log.child({ component: "inbound" }),
  })

  const hibernation = createHibernation({
    clock,
    log: log.child({ component: "host" }),
    settled: async () => {
      await workflows.settled()
      await channels.settled()
    },
    stopTurns: (why) => {
      void workflows.stop(undefined, why)
      void channels.stop(undefined, why)
    },
    flush: link.flush,
    scrub: () => scrubSecrets(config.stateDir, db, [RUNTIME_FACT, API_TOKEN_FACT, BROKER_FACT]),
    sync: async () => {
      writeOut(db)
      await runCommand("sync", [], { env: config.environment, timeoutMs: SYNC_MS })
    },
    services: joinedServices.with(host.services),
    renewSecrets: () => {
      settings.reread()
      gateway?.afterRestore(settings.get().jwtSecret)
    },
    reconnect: (why) => link.redial(why, settings.rereadRunnerToken()),
    // A pull during a turn would change the files that the turn works on.
    refresh: async () => {
      await channels.settled()
      await host.refresh()
    },
  })
  joined.set({ channels, workflows, readiness, agent, inbound, hibernation })

  let stopWatching = () => {}

  return {
    start: async () => {
      gateway = joinGateway({
        config,
        db,
        apiToken,
        channels,
        link,
        readiness,
        agent,
        linkMetrics,
        reserved: () =>
          new Map([
            ...(options.reservedPorts ?? []),
            ...reservedPorts(config.rawVncPort, host.controlPort(), broker.port, v1.port()),
          ]),
        git,
        secrets,
        services: {
          ...joinedServices,
          isSetup: config.sessionKind === "setup",
          workDir,
          owner: user,
          publicUrl: () => gatewayUrlOf(config, gateway?.port, options.page),
          clock,
        },
        v1,
        page: options.page,
        onCompleted: () => done.resolve({ code: 0, why: "the agent completed the session" }),
        clock,
        log: log.child({ component: "gateway" }),
      })
      await egress.start()
      broker.start()
      agent.begin()
      try {
        await host.start()
      } catch (error) {
        await agent.stop()
        throw error
      }
      // Turns of workflows that ended with the last process would otherwise continue in OpenCode unobserved.
      for (const id of workflows.recover())
        void channels.stop(channelOf(id), "the workflow has ended")
      link.start()
      void host.prepared().then(changes.start, changes.start)
      stopWatching = watchForRestore({ clock, onRestore: (why) => void hibernation.restored(why) })
      log.info("daemon.started", { gatewayPort: gateway.port, stateDir: config.stateDir })
      return gateway
    },
    done: done.promise,
    stop: async (ending) => {
      if (stopped.signal.aborted) return
      stopped.abort()
      log.info("daemon.stopping", { why: ending.why })
      stopWatching()
      changes.stop()
      hibernation.stop()
      const why = "the runner is shutting down"
      const turns = [workflows.stop(undefined, why), channels.stop(undefined, why)]
      await within(clock, SETTLE_MS, Promise.all(turns))
      await within(
        clock,
        PROCESSES_MS,
        Promise.all([agent.stop(), host.stop(), joinedServices.services.suspend(), v1.stop()]),
      )
      await link.stop(FLUSH_MS)
      await within(clock, CLOSE_MS, Promise.all([gateway?.stop(), broker.stop(), egress.stop()]))
      db.close()
      done.resolve(ending)
    },
    missingPrograms: host.services.missing,
    model: () => model,
  }
}

/** Ports that no tunnel may use, beside those of the gateway's backends and of OpenCode. */
const reservedPorts = (
  rawVncPort: number,
  controlPort: number | undefined,
  brokerPort: number,
  v1Port: number | undefined,
): readonly (readonly [number, string])[] => [
  [rawVncPort, "the VNC server"],
  [brokerPort, "the key broker"],
  ...(controlPort === undefined ? [] : [[controlPort, "the control server"] as const]),
  ...(v1Port === undefined ? [] : [[v1Port, "the server of files and processes"] as const]),
]

interface Joined {
  readonly channels: Channels
  readonly workflows: Executions
  readonly readiness: Readiness
  readonly agent: Agent
  readonly inbound: ReturnType<typeof createCommandHandler>
  readonly hibernation: Hibernation
}

/**
 * The address of the box where there is a page. Elsewhere a gateway on loopback is reached on this machine; any other one
 * only by its public address.
 */
const gatewayUrlOf = (
  { publicUrl, gatewayHost }: Settings,
  port: number | undefined,
  page: PageOptions | undefined,
): string | undefined => {
  if (publicUrl !== undefined || port === undefined) return publicUrl
  if (page !== undefined) return originFor(boxOrigin(page.tunnels), `:${port}`)
  return gatewayHost === "127.0.0.1" ? `http://127.0.0.1:${port}` : undefined
}

/** What the agent's tools need of the settings. */
const toolVariables = (
  settings: Settings,
  broker: { readonly origin: string; readonly token: string },
): Record<string, string> => ({
  WHISPER_MODELS: settings.whisperModels,
  ...(settings.parallelApiKey && {
    SANDPIPER_BROKER_URL: broker.origin,
    SANDPIPER_BROKER_TOKEN: broker.token,
  }),
  ...(settings.parentSessionId && { PARENT_SESSION_ID: settings.parentSessionId }),
  ...(settings.publicUrl && { SANDPIPER_PUBLIC_URL: settings.publicUrl }),
})

const parallelService = ({ parallelApiKey, parallelApiUrl }: Settings): Record<string, Service> =>
  parallelApiKey === undefined
    ? {}
    : {
        [PARALLEL]: {
          url: parallelApiUrl,
          headers: { "x-api-key": parallelApiKey },
          calls: "parallel",
        },
      }
