/** The diagram in code: makes every part of the runner and joins them. Starts in order, stops in order. */
import { join } from "node:path"
import manifest from "../../package.json"
import { createAgent } from "./opencode/agent.ts"
import { agentEnvironment } from "./opencode/launch/environment.ts"
import { createIdMint } from "./opencode/client/ids.ts"
import type { RuntimeConfig } from "./opencode/config/compose-config.ts"
import type { WatchOptions } from "./opencode/launch/hang-detector.ts"
import { RUN_RECORD } from "./opencode/launch/run-record.ts"
import { agentDirectories } from "./opencode/config/config-directories.ts"
import { openChannelStore } from "./channels/channel-store.ts"
import { openJobStore } from "./channels/job-store.ts"
import { createChannels } from "./channels/channels.ts"
import type { Settings } from "../settings/settings.ts"
import { bootToken } from "./gateway/api-token.ts"
import { type Gateway, startGateway } from "./gateway/gateway.ts"
import { createLinkMetrics } from "./gateway/link-metrics.ts"
import { notifyOverLink, requestOverLink } from "./gateway/link-requests.ts"
import { createComponentStates } from "./gateway/components.ts"
import { readBootId } from "./host/boot-id.ts"
import { createHibernation } from "./host/snapshot-hooks.ts"
import { createHost } from "./host/host.ts"
import { createProcesses } from "./host/processes.ts"
import type { MissingProgram } from "./host/services.ts"
import { openSecrets } from "./sandbox/open-secrets.ts"
import { createMask } from "./sandbox/secret-mask.ts"
import { createRunCommand } from "./sandbox/run-command.ts"
import { scrubField, scrubFiles, watchForRestore } from "./host/detect-restore.ts"
import { chooseAgentUser, giveTo, handOver } from "./host/users.ts"
import { plannedDirectory } from "./host/prepare-repositories.ts"
import { ownVariables } from "../settings/table.ts"
import { createInbound } from "./commands/index.ts"
import { type Clock, systemClock, within } from "../lib/clock.ts"
import { openStateDb, readFact, scrubFact, writeFact, writeOut } from "../lib/state-db.ts"
import { describeError, type Log } from "../lib/log.ts"
import { createAttachments } from "./prompt/attachments.ts"
import { createTranscribe } from "./prompt/audio.ts"
import { createReadPdf } from "./prompt/read-pdf.ts"
import { createGitIdentities } from "./prompt/git-identity.ts"
import { createPrepare } from "./prompt/prepare.ts"
import { createSaveFile } from "./prompt/save-file.ts"
import type { Outbound } from "../wire/frames/index.ts"
import { createOutbox } from "./link/outbox.ts"
import { openOutboxStore, readEpoch } from "./link/outbox-store.ts"
import { createLink } from "./link/link.ts"
import { createExecutions } from "./workflow/executions.ts"
import { findWorkflow, shellOrder } from "./workflow/order-sources.ts"
import { channelOf, createSteps } from "./workflow/steps.ts"
import { openExecutionStore } from "./workflow/execution-store.ts"

export interface DaemonOptions {
  readonly config: Settings
  /** Where the link goes, who it is: the Config's, or those of a session agent in this process. */
  readonly link: { readonly url: string; readonly token: string }
  readonly version: string
  readonly log: Log
  readonly clock?: Clock
  /** The settings as they are now, for what a restored sandbox is given anew. */
  readonly readAgain?: () => Settings
  /** How this program is started; git starts it as its credential helper. */
  readonly self?: readonly string[]
  /** When a silent OpenCode counts as hung; the default is about half a minute. */
  readonly watch?: Pick<WatchOptions, "everyMs" | "misses">
}

export interface Ending {
  readonly code: number
  readonly why: string
}

export interface Daemon {
  /** Resolves when the gateway listens and the link is being made; the agent comes up behind it. */
  readonly start: () => Promise<Gateway>
  /** Resolves when the runner has nothing more to do, of its own accord or because it was stopped. */
  readonly done: Promise<Ending>
  readonly stop: (ending: Ending) => Promise<void>
  /** What the services that are wanted lack. */
  readonly missingPrograms: () => readonly MissingProgram[]
}

/** The OpenCode that is pinned: what is prepared for it must name its very version. */
const OPENCODE_VERSION = manifest.dependencies["opencode-ai"]
const OUTBOX_BYTES = 64 * 1024 * 1024
/** An end in order takes at most the sum of these, below the ten seconds that a platform waits. */
const SETTLE_MS = 4000
const PROCESSES_MS = 3000
const FLUSH_MS = 1500
const CLOSE_MS = 500
const COMPLETE_MS = 500
const RUNTIME_FACT = "agent.runtime"
const API_TOKEN_FACT = "agent.api-token"
const TUNNELS_FACT = "gateway.tunnels"

export const createDaemon = (options: DaemonOptions): Daemon => {
  const { config, log, clock = systemClock } = options
  const db = openStateDb(config.stateDir)
  const done = Promise.withResolvers<Ending>()
  const stopped = new AbortController()
  /** What prompts need before they can run; told by /ready. */
  const parts = createComponentStates(["link", "agent"], clock.now)
  /** Opens /api to the agent's tools, and to nobody else. */
  const apiToken = bootToken(readBootId(), {
    read: () => readFact(db, API_TOKEN_FACT),
    write: (text) => writeFact(db, API_TOKEN_FACT, text),
  })
  let gateway: Gateway | undefined
  /** What the runner keeps to itself; it is read anew when the sandbox is restored. */
  let own = config

  const uplinkLog = log.child({ part: "link" })
  const outbox = createOutbox({
    // Frames and the turns that they tell of are written together.
    store: openOutboxStore(db, {
      write: () => {
        channels.persist()
        workflows.persist()
      },
      done: () => {
        channels.persisted()
        workflows.persisted()
      },
    }),
    maxBytes: OUTBOX_BYTES,
    onStoreFailure: (error) => uplinkLog.error("link.not-stored", { error: describeError(error) }),
  })
  const linkMetrics = createLinkMetrics()
  const uplink = createLink({
    ...options.link,
    sessionId: config.sessionId,
    version: options.version,
    epoch: readEpoch(db, () => crypto.randomUUID()),
    outbox,
    clock,
    log: uplinkLog,
    active: () => channels.active(),
    onFrame: (frame) => {
      // What comes during the end is for the next runner: nothing here has taken it.
      if (!stopped.signal.aborted) hibernation.whenAwake(() => inbound(frame))
    },
    onConnected: () => {
      agent.linkOpen()
      reportReadiness()
      isGreeted = true
      gateway?.announceTunnels()
      if (models) uplink.send(models)
    },
    taps: [linkMetrics.onFrameSent],
    onEnd: (code, why) => done.resolve({ code, why }),
  })

  const self = options.self ?? [process.execPath]
  const user = chooseAgentUser(config.agentUser, process.getuid?.() === 0)
  const workDir = plannedDirectory(config.workDir, config.repositories)
  const mint = createIdMint(clock.now)
  const gitIdentities = createGitIdentities(join(config.stateDir, "opencode", "git-identities"))
  const sessions = openChannelStore(db)
  const jobs = openJobStore(db)
  const channels = createChannels({
    sessions,
    jobs,
    clock,
    log: log.child({ part: "channels" }),
    mint,
    send: uplink.send,
    settings: {
      relayPermissions: config.permissions === "relay",
      budgets: {
        firstEvent: config.firstEventSeconds * 1000,
        progress: config.progressSeconds * 1000,
        total: config.turnSeconds * 1000,
      },
    },
    prepare: createPrepare({
      mint,
      nameAuthor: gitIdentities.set,
      attachments: createAttachments({
        save: createSaveFile(workDir),
        readPdf: createReadPdf({ self, owner: user, clock }),
        transcribe: createTranscribe({
          path: config.environment["PATH"] ?? "",
          modelsDir: config.whisperModels,
        }),
        onTranscript: ({ messageId }, transcript) =>
          uplink.send({ type: "audio-transcript", messageId, transcript }),
        onProblem: ({ messageId, channelType, channelId }, detail) =>
          uplink.send({
            type: "agentStatus",
            status: "thinking",
            detail,
            messageId,
            channelType,
            channelId,
          }),
      }),
    }),
    onChildSession: (child, parent) => void gitIdentities.inherit(child, parent),
  })

  const environment = agentEnvironment({
    environment: config.environment,
    allow: config.agentEnvAllow ?? [],
    own: ownVariables,
  })
  const secrets = openSecrets({
    ...config,
    secretsToken: () => own.secretsToken,
    environment,
    owner: user,
    clock,
  })
  const host = createHost({
    config,
    current: () => own,
    self,
    apiToken,
    user,
    environment,
    clock,
    log: log.child({ part: "host" }),
    memory: {
      read: (name) => readFact(db, name),
      write: (name, value) => writeFact(db, name, value),
    },
    setPart: parts.set,
    runHook: (hook) => hibernation.runHook(hook),
    runWorkflow: (order, gone) => workflows.execute(shellOrder(order), gone),
  })

  let ready: string | undefined
  let models: Outbound<"models"> | undefined
  /** The present connection was told how things stand before it asked. */
  let isGreeted = false
  const agent = createAgent({
    settings: { ...config, workDir },
    ownVariables,
    opencodeVersion: OPENCODE_VERSION,
    self: process.execPath,
    toolEnvironment: () => ({
      SANDPIPER_URL: `http://127.0.0.1:${gateway?.port ?? config.gatewayPort}`,
      SANDPIPER_API_TOKEN: apiToken,
      WHISPER_MODELS: config.whisperModels,
      ...(own.parallelApiKey && { PARALLEL_API_KEY: own.parallelApiKey }),
      ...(config.parentSessionId && { PARENT_SESSION_ID: config.parentSessionId }),
      ...(config.publicUrl && { SANDPIPER_PUBLIC_URL: config.publicUrl }),
    }),
    hiddenTools: config.parallelApiKey ? [] : ["parallel_*"],
    instructionFiles: [host.personaFiles],
    processes: createProcesses(clock),
    installMore: async (configDir) => {
      await host.prepared()
      await gitIdentities.installPlugin(configDir)
    },
    workDirReady: host.directoryReady,
    user,
    giveToUser: async (path) => user && giveTo(path, user),
    handOver: async (path) => user && handOver(path, user),
    memory: {
      read: () => JSON.parse(readFact(db, RUNTIME_FACT) ?? "{}"),
      write: (runtime) => writeFact(db, RUNTIME_FACT, JSON.stringify(runtime)),
    },
    onEvent: channels.agentEvent,
    onGap: () => {
      linkMetrics.onEventStreamLost()
      channels.streamGap()
    },
    onFirstEvent: channels.streamGap,
    room: uplink.room,
    onReady: ({ client, url, models: known, defaultModel }) => {
      ready = url
      parts.set("agent", "ready")
      channels.agentReady({ client, defaultModel })
      models = {
        type: "models",
        models: known.map((provider) => ({ ...provider, models: [...provider.models] })),
      }
      uplink.send(models)
      reportReadiness()
    },
    onLost: (why) => {
      ready = undefined
      parts.set("agent", "starting", why)
      channels.agentLost(why)
    },
    onFatal: (error) => {
      parts.set("agent", "failed", error)
      uplink.send({ type: "agentStatus", status: "error", detail: error })
    },
    quiet: channels.pause,
    goOn: channels.goOn,
    clock,
    log: log.child({ part: "agent" }),
    ...(options.watch && { watch: options.watch }),
  })

  /** Readiness is a level: whoever asks is told what is true now, at every connection and every change. */
  const reportReadiness = () =>
    uplink.send({
      type: "agentStatus",
      ...(ready ? channels.status() : { status: "thinking", detail: "starting" }),
    })

  const configure = async (change: RuntimeConfig) => {
    const applied = await agent.configure(change)
    uplink.send({ type: "opencode-config-applied", ...applied })
  }

  const bash = createRunCommand({
    workDir,
    environment: {
      ...environment,
      ...(user && { USER: user.name, HOME: user.home }),
      SANDPIPER_API_TOKEN: apiToken,
    },
    owner: user,
    clock,
  })
  const workflows = createExecutions({
    store: openExecutionStore(db),
    perform: createSteps({
      channels,
      send: uplink.send,
      bash: ({ command, cwd, timeoutMs }, signal) =>
        bash(
          {
            program: "bash",
            // What it prints is one text, in the order in which it was printed.
            args: ["-c", 'exec 2>&1; eval "$0"', command],
            cwd,
            timeoutMs,
            env: {},
            signal,
          },
          () => createMask([]),
        ),
      clock,
    }),
    findWorkflow: (id) => findWorkflow(uplink.request, id),
    answer: (executionId, envelope) =>
      uplink.send({ type: "workflow-execution-result", executionId, envelope }),
    clock,
    newId: () => crypto.randomUUID(),
    log: log.child({ part: "workflow" }),
  })

  const inbound = createInbound({
    channels,
    workflows,
    jobs,
    sessionIds: sessions.all,
    send: uplink.send,
    // A connection begins with `init`, and has been told by then; a second idle would look like a second readiness.
    reportState: () => {
      if (!isGreeted) reportReadiness()
      isGreeted = false
    },
    clock,
    configure: (change) => void configure(change),
    stop: () => done.resolve({ code: 0, why: "the session agent said stop" }),
    deleteTunnel: async (name) => gateway?.deleteTunnel(name),
    log: log.child({ part: "inbound" }),
  })

  const hibernation = createHibernation({
    clock,
    log: log.child({ part: "host" }),
    settled: async () => {
      await workflows.settled()
      await channels.settled()
    },
    stopTurns: (why) => {
      void workflows.stop(undefined, why)
      void channels.stop(undefined, why)
    },
    flush: uplink.flush,
    scrub: async () => {
      const { authFile, configFile } = agentDirectories(config.stateDir)
      // The configuration may hold the headers of MCP servers.
      const files = await scrubFiles([authFile, configFile])
      // Without its password the OpenCode that it tells of can still be found and ended, but not spoken to.
      const record = await scrubField(join(config.stateDir, RUN_RECORD), "password")
      const facts = [RUNTIME_FACT, API_TOKEN_FACT].flatMap((name) => scrubFact(db, name) ?? [])
      return {
        files: [...files.files, ...record.files, ...(facts.length > 0 ? ["state.db"] : [])],
        putBack: async () => {
          await files.putBack()
          await record.putBack()
          for (const fact of facts) fact.putBack()
        },
      }
    },
    sync: async () => {
      writeOut(db)
      await Bun.spawn(["sync"]).exited
    },
    services: host.services,
    renewSecrets: () => renewSecrets(),
    // Only where they are read again is the link's token among them.
    reconnect: (why) => uplink.redial(why, options.readAgain && own.runnerToken),
    // A pull under a running turn would change the files that it works on.
    refresh: async () => {
      await channels.settled()
      await host.refresh()
    },
  })
  let stopWatching = () => {}

  const renewSecrets = () => {
    const before = own
    try {
      own = options.readAgain?.() ?? own
      log.hide(own.secrets)
      gateway?.afterRestore(own.jwtSecret)
      if (options.readAgain) log.info("secrets.read-again")
    } catch (error) {
      log.warn("secrets.not-read-again", { error: describeError(error) })
      own = before
      gateway?.afterRestore(own.jwtSecret)
    }
  }

  const stop = async (ending: Ending) => {
    if (stopped.signal.aborted) return
    stopped.abort()
    log.info("daemon.stopping", { why: ending.why })
    stopWatching()
    hibernation.stop()
    const shuttingDown = "the runner is shutting down"
    const ended = [workflows.stop(undefined, shuttingDown), channels.stop(undefined, shuttingDown)]
    await within(clock, SETTLE_MS, Promise.all(ended))
    await within(clock, PROCESSES_MS, Promise.all([agent.stop(), host.stop()]))
    await uplink.stop(FLUSH_MS)
    await within(clock, CLOSE_MS, gateway?.stop() ?? Promise.resolve())
    db.close()
    done.resolve(ending)
  }

  return {
    start: async () => {
      gateway = startGateway({
        host: config.gatewayHost,
        port: config.gatewayPort,
        sessionId: config.sessionId,
        jwtSecret: config.jwtSecret,
        apiToken,
        allowedOrigins: config.allowedOrigins ?? [],
        backends: { vscode: config.vscodePort, vnc: config.vncPort, ttyd: config.ttydPort },
        clock,
        log: log.child({ part: "gateway" }),
        opencodeReserved: Number(new URL(config.opencodeUrl).port) || undefined,
        opencodePort: () => (ready === undefined ? undefined : Number(new URL(ready).port)),
        components: () => {
          const link = uplink.state()
          parts.set(
            "link",
            link === "open" ? "ready" : "starting",
            link === "open" ? undefined : link,
          )
          return parts.read()
        },
        details: () => ({ agent: agent.status() }),
        gauges: () => linkMetrics.read(uplink.counters(), parts.read()["agent"]?.restarts ?? 0),
        loadTunnels: () => readFact(db, TUNNELS_FACT),
        saveTunnels: (text) => writeFact(db, TUNNELS_FACT, text),
        announceTunnels: (tunnels) => uplink.send({ type: "tunnels", tunnels: [...tunnels] }),
        request: requestOverLink(uplink.request),
        notify: notifyOverLink({
          send: uplink.send,
          originOf: channels.originOf,
          // After its tool call is answered, so that the turn ends with it.
          onCompleted: () => {
            const ending = { code: 0, why: "the agent completed the session" }
            clock.after(COMPLETE_MS, () => done.resolve(ending))
          },
        }),
        secrets,
      })
      agent.begin()
      try {
        await host.start()
      } catch (error) {
        await agent.stop()
        throw error
      }
      // Their turns go on in OpenCode otherwise, for nobody.
      for (const id of workflows.recover())
        void channels.stop(channelOf(id), "the workflow has ended")
      uplink.start()
      stopWatching = watchForRestore({ clock, onRestore: (why) => void hibernation.restored(why) })
      log.info("daemon.started", { gatewayPort: gateway.port, stateDir: config.stateDir })
      return gateway
    },
    done: done.promise,
    stop,
    missingPrograms: host.services.missing,
  }
}
