/** The diagram in code: makes every part of the runner and joins them. Starts in order, stops in order. */
import { randomBytes } from "node:crypto"
import { mkdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import manifest from "../package.json"
import { findOpenCode, pathWithRipgrep } from "./agent/binaries.ts"
import { runEventStream } from "./agent/event-stream.ts"
import { createIdMint } from "./agent/ids.ts"
import { launchAgent, type RunningAgent } from "./agent/launcher.ts"
import { defaultModel } from "./agent/models.ts"
import {
  agentEnvironment,
  composeSettings,
  mergeRuntime,
  type RuntimeConfig,
  type Settings,
} from "./agent/settings.ts"
import { createSupervisor } from "./agent/supervisor.ts"
import { agentDirectories, writeWorkspace } from "./agent/workspace.ts"
import { openChannelStore } from "./channels/channel-store.ts"
import { createChannels } from "./channels/channels.ts"
import type { Config } from "./config.ts"
import { type Gateway, startGateway } from "./gateway/gateway.ts"
import { askOver, countedOver } from "./gateway/over-uplink.ts"
import { createPartsBoard } from "./gateway/ready.ts"
import { createHibernation } from "./host/hibernation.ts"
import { createHost } from "./host/host.ts"
import { scrubFiles, watchForRestore } from "./host/snapshot.ts"
import { createInbound } from "./inbound/index.ts"
import { type Clock, systemClock, within } from "./lib/clock.ts"
import { openStateDb, readFact, scrubFact, writeFact, writeOut } from "./lib/state-db.ts"
import { describeError, type Log } from "./log.ts"
import { createOutbox } from "./uplink/outbox.ts"
import { openOutboxStore, readEpoch } from "./uplink/outbox-store.ts"
import { createUplink } from "./uplink/uplink.ts"

export interface DaemonOptions {
  readonly config: Config
  /** Where the link goes, who it is: the Config's, or those of a session agent in this process. */
  readonly link: { readonly url: string; readonly token: string }
  readonly version: string
  readonly log: Log
  readonly clock?: Clock
  /** How this program is started; git starts it as its credential helper. */
  readonly self?: readonly string[]
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
}

/** The OpenCode that is pinned: what is prepared for it must name its very version. */
const OPENCODE_VERSION = manifest.dependencies["opencode-ai"]
const OUTBOX_BYTES = 64 * 1024 * 1024
/** An end in order takes at most the sum of these, below the ten seconds that a platform waits. */
const SETTLE_MS = 3000
const PROCESSES_MS = 3500
const FLUSH_MS = 2000
const CLOSE_MS = 500
const RUNTIME_FACT = "agent.runtime"
const TUNNELS_FACT = "gateway.tunnels"

export const createDaemon = (options: DaemonOptions): Daemon => {
  const { config, log, clock = systemClock } = options
  const db = openStateDb(config.stateDir)
  const done = Promise.withResolvers<Ending>()
  const stopped = new AbortController()
  /** What prompts need before they can run; told by /ready. */
  const parts = createPartsBoard(["link", "agent"], clock.now)
  /** Opens /api to the agent's tools, and to nobody else; new at every start. */
  const apiToken = randomBytes(32).toString("hex")
  let gateway: Gateway | undefined

  const uplinkLog = log.child({ part: "link" })
  const outbox = createOutbox({
    store: openOutboxStore(db),
    maxBytes: OUTBOX_BYTES,
    onStoreFailure: (error) => uplinkLog.error("link.not-stored", { error: describeError(error) }),
  })
  const uplink = createUplink({
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
      firstConfig.linkOpen()
      gateway?.announceTunnels()
      reportReadiness()
    },
    onEnd: (code, why) => done.resolve({ code, why }),
  })

  const counted = countedOver(uplink.send)
  const channels = createChannels({
    store: openChannelStore(db),
    clock,
    log: log.child({ part: "channels" }),
    mint: createIdMint(clock.now),
    send: counted.send,
  })

  const host = createHost({
    config,
    self: options.self ?? [process.execPath],
    apiToken,
    environment: agentEnvironment(config.environment),
    clock,
    log: log.child({ part: "host" }),
    memory: {
      read: (name) => readFact(db, name),
      write: (name, value) => writeFact(db, name, value),
    },
    setPart: parts.set,
    runHook: (hook) => hibernation.runHook(hook),
  })

  const agentLog = log.child({ part: "agent" })
  const directories = agentDirectories(config.stateDir)
  const password = config.opencodePassword ?? crypto.randomUUID()
  let ready: RunningAgent | undefined
  const supervisor = createSupervisor({
    clock,
    log: agentLog,
    quiet: channels.settled,
    launch: async (runtime, signal) => {
      const search = {
        opencodeBin: config.opencodeBin,
        path: config.environment["PATH"] ?? "",
        self: process.execPath,
      }
      const binary = findOpenCode(search)
      const place = await host.place()
      await mkdir(dirname(directories.logFile), { recursive: true, mode: 0o700 })
      await writeWorkspace(
        directories,
        withInstructions(composeSettings(runtime, config.environment), place.instructionFiles),
        OPENCODE_VERSION,
      )
      return launchAgent({
        binary,
        url: new URL(config.opencodeUrl),
        password,
        workDir: place.directory,
        environment: {
          ...agentEnvironment(config.environment),
          ...directories.environment,
          ...offline,
          PATH: pathWithRipgrep(search),
          SANDPIPER_URL: `http://127.0.0.1:${gateway?.port ?? config.gatewayPort}`,
          SANDPIPER_API_TOKEN: apiToken,
          ...host.agentVariables(),
        },
        logFile: directories.logFile,
        clock,
        log: agentLog,
        signal,
      })
    },
    onUp: async (agent, gone) => {
      const subscribed = Promise.withResolvers<void>()
      void runEventStream(
        {
          open: agent.client.openEvents,
          clock,
          log: agentLog,
          onEvent: channels.agentEvent,
          onSubscribed: (gap) => {
            subscribed.resolve()
            if (!gap) return
            counted.eventStreamLost()
            channels.streamGap()
          },
          room: uplink.room,
        },
        gone,
      )
      const [models] = await Promise.all([agent.client.models(), subscribed.promise])
      ready = agent
      parts.set("agent", "ready")
      channels.agentReady({
        client: agent.client,
        defaultModel: defaultModel(models, config.model),
      })
      uplink.send({
        type: "models",
        models: models.map(({ provider, models: known }) => ({
          provider,
          models: known.map(({ id, name }) => ({ id, name })),
        })),
      })
      reportReadiness()
    },
    onDown: (why) => {
      ready = undefined
      parts.set("agent", "starting", why)
      channels.agentLost(why)
      if (!stopped.signal.aborted) agentLog.warn("agent.down", { why })
    },
  })

  /** Readiness is a level: whoever asks is told what is true now, at every connection and every change. */
  const reportReadiness = () => {
    if (!ready) return uplink.send({ type: "agentStatus", status: "thinking", detail: "starting" })
    if (channels.isIdle()) uplink.send({ type: "agentStatus", status: "idle" })
  }

  const known = readFact(db, RUNTIME_FACT)
  let runtime: RuntimeConfig = known === undefined ? {} : JSON.parse(known)
  const firstConfig = waitForConfig(clock, config.configWaitSeconds * 1000, () => {
    if (!stopped.signal.aborted) supervisor.start(runtime)
  })
  const configure = async (change: RuntimeConfig) => {
    const merged = mergeRuntime(runtime, change)
    runtime = merged
    writeFact(db, RUNTIME_FACT, JSON.stringify(merged))
    const first = firstConfig.arrived()
    try {
      const { restarted } = await supervisor.apply(merged)
      uplink.send({
        type: "opencode-config-applied",
        success: true,
        restarted: restarted && !first,
      })
    } catch (error) {
      const reason = describeError(error)
      uplink.send({
        type: "opencode-config-applied",
        success: false,
        restarted: false,
        error: reason,
      })
    }
  }

  const inbound = createInbound({
    channels,
    send: uplink.send,
    configure: (change) => void configure(change),
    stop: () => done.resolve({ code: 0, why: "the session agent said stop" }),
    deleteTunnel: (name) => gateway?.deleteTunnel(name),
    log: log.child({ part: "inbound" }),
  })

  const hibernation = createHibernation({
    clock,
    log: log.child({ part: "host" }),
    settled: channels.settled,
    stopTurns: (why) => void channels.stop(undefined, why),
    flush: uplink.flush,
    scrub: async () => {
      const files = await scrubFiles([join(directories.data, "auth.json")])
      const fact = scrubFact(db, RUNTIME_FACT)
      return {
        files: [...files.files, ...(fact ? ["state.db"] : [])],
        putBack: async () => {
          await files.putBack()
          fact?.putBack()
        },
      }
    },
    sync: async () => {
      writeOut(db)
      await Bun.spawn(["sync"]).exited
    },
    services: host.services,
    reconnect: uplink.redial,
  })
  let stopWatching = () => {}

  const stop = async (ending: Ending) => {
    if (stopped.signal.aborted) return
    stopped.abort()
    log.info("daemon.stopping", { why: ending.why })
    stopWatching()
    hibernation.stop()
    firstConfig.cancel()
    channels.stop(undefined, "the runner is shutting down")
    await within(clock, SETTLE_MS, channels.settled())
    const ended = Promise.all([supervisor.stop(), host.stop()])
    await within(clock, PROCESSES_MS, ended)
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
        opencodePort: () => (ready ? Number(new URL(ready.url).port) : undefined),
        parts: () => {
          const link = uplink.state()
          parts.set(
            "link",
            link === "open" ? "ready" : "starting",
            link === "open" ? undefined : link,
          )
          return parts.read()
        },
        gauges: () => counted.gauges(uplink.counters(), parts.read()["agent"]?.restarts ?? 0),
        loadTunnels: () => readFact(db, TUNNELS_FACT),
        saveTunnels: (text) => writeFact(db, TUNNELS_FACT, text),
        announceTunnels: (tunnels) => uplink.send({ type: "tunnels", tunnels: [...tunnels] }),
        ask: askOver(uplink.request),
        tell: (type, fields) => uplink.send({ type, ...fields } as never),
      })
      await host.start()
      uplink.start()
      firstConfig.begin()
      stopWatching = watchForRestore({ clock, onRestore: (why) => void hibernation.restored(why) })
      log.info("daemon.started", { gatewayPort: gateway.port, stateDir: config.stateDir })
      return gateway
    },
    done: done.promise,
    stop,
  }
}

const withInstructions = (settings: Settings, files: readonly string[]): Settings =>
  files.length === 0
    ? settings
    : { ...settings, config: { ...settings.config, instructions: [...files] } }

/** Nothing that the agent starts with may wait for a network that is not there. */
const offline = {
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
  OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
}

/**
 * The agent is started once, with the session agent's first configuration if that comes within `waitMs` of the
 * link's opening, else with what is known already.
 */
const waitForConfig = (clock: Clock, waitMs: number, go: () => void) => {
  let over = false
  let cancel = () => {}
  const once = () => {
    cancel()
    if (over) return false
    over = true
    go()
    return true
  }
  const arm = () => {
    cancel()
    if (!over) cancel = clock.after(waitMs, once)
  }
  return {
    begin: arm,
    linkOpen: arm,
    /** True when this configuration is the one the agent starts with. */
    arrived: once,
    cancel: () => {
      over = true
      cancel()
    },
  }
}
