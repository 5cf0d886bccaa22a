/** Creates the gateway's components and joins them. The rest of the runner is passed in as functions. */
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { type ApiPorts, createApi } from "./api.ts"
import { SAFE_METHODS } from "./forward.ts"
import { createRequestHandler } from "./handle-request.ts"
import { createAuth } from "./auth.ts"
import { type BackendPorts, reservedPorts } from "./proxy/backends.ts"
import type { HttpResponse } from "./http/response.ts"
import { createMetrics } from "./metrics.ts"
import type { Metric } from "../../lib/prometheus.ts"
import { createDialer } from "./tcp/backend-connections.ts"
import { isReady, type Components, readyReport } from "./components.ts"
import type { PageOptions } from "./page/page-door.ts"
import type { Approvals } from "./approvals.ts"
import type { Terminals } from "../sandbox/terminals.ts"
import type { TerminalPorts } from "./serve-terminals.ts"
import { forwardedRoutes, type RouteName } from "./routes.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"
import { startServer } from "./tcp/server.ts"
import { createWorkMeter } from "./work-meter.ts"
import { createSandboxOperations, type SandboxOperationPorts } from "../sandbox/operations.ts"
import type { Secrets } from "../sandbox/secrets.ts"
import { type AnnouncedTunnel, createTunnels } from "../sandbox/tunnels.ts"
import type { V1Address } from "../sandbox/v1/supervisor.ts"

export interface GatewayOptions {
  readonly host: string
  readonly port: number
  readonly sessionId: string
  readonly jwtSecret: string | undefined
  readonly apiToken: string
  readonly allowedOrigins: readonly string[]
  /** The origin of tunnels, with `*` for the name. */
  readonly sandboxOrigin?: string | undefined
  /** Pages of path tunnels share the gateway's origin. */
  readonly allowSharedOrigin?: boolean
  readonly backends: BackendPorts
  /** Backends that listen on a Unix socket in place of their port. */
  readonly backendSockets?: ReadonlyMap<number, string>
  readonly clock: Clock
  readonly log: Log
  /** OpenCode's port while it runs. */
  readonly opencodePort: () => number | undefined
  /** Of the settings. If absent it is random, and no client outside knows it. */
  readonly opencodePassword?: string | undefined
  /** OpenCode's configured port, which no tunnel may use even if OpenCode does not run. */
  readonly opencodeReserved?: number | undefined
  /** Ports of other servers of this sandbox, with their owners: no tunnel may use them. */
  readonly reserved?: () => ReadonlyMap<number, string>
  readonly components: () => Components
  /** Additional fields of `/health?verbose`. */
  readonly details?: () => Readonly<Record<string, unknown>>
  /** Metrics of other components, for /metrics. */
  readonly gauges: () => readonly Metric[]
  /** The stored tunnels, which survive a restart. */
  readonly loadTunnels: () => string | undefined
  readonly saveTunnels: (text: string) => void
  readonly announceTunnels: (tunnels: readonly AnnouncedTunnel[]) => void
  /** The ports on which something listens, for the state of tunnels; absent: it is not announced. */
  readonly listeningPorts?: () => ReadonlySet<number> | undefined
  readonly request: ApiPorts["request"]
  readonly notify: ApiPorts["notify"]
  /** Where the operations on secrets get them; `undefined` when the sandbox has none. */
  readonly secrets?: Secrets | undefined
  /** The sandbox's own terminals and the files of their document. */
  readonly terminal?: TerminalPorts | undefined
  /** The same terminals, which `/api/terminal` opens also where the document is missing. */
  readonly terminals?: Terminals | undefined
  readonly services: SandboxOperationPorts["services"]
  readonly workspace: SandboxOperationPorts["workspace"]
  /** Absent where no operation needs an approval. */
  readonly approvals?: Approvals | undefined
  /** The server of `/v1`, which is started if necessary; without it those routes are not served. */
  readonly v1Server?: () => Promise<V1Address | undefined>
  /** The agent's directory as a path in the workspace, `.` for the workspace itself. */
  readonly agentDirectory?: string
  /** The page, on a host of its own. Absent: the gateway serves the sandbox only, on every host. */
  readonly page?: PageOptions | undefined
  readonly mostSockets?: number
  /** A request that may have changed files of the workspace is over. */
  readonly onWritten?: () => void
  /** People have worked in the sandbox in the last half minute. */
  readonly onUsed?: () => void
}

export interface Gateway {
  readonly port: number
  /** Sends the whole list of tunnels to the session agent. */
  readonly announceTunnels: () => void
  readonly deleteTunnel: (name: string) => void
  /**
   * To be called after the sandbox was restored from a snapshot. Connections to backends are dropped, because another
   * client may be at the other end now, and tokens are verified with this key from now on. API calls continue.
   */
  readonly afterRestore: (jwtSecret: string | undefined) => void
  readonly stop: () => Promise<void>
}

export const startGateway = (options: GatewayOptions): Gateway => {
  const { clock, log, apiToken } = options
  const auth = createAuth({
    ...options,
    now: clock.now,
    siteOf: (host) => tunnels.findByHost(host)?.name ?? "",
    onOpened: (sub, path) => log.info("gateway.opened", { sub, path }),
  })
  const dialer = createDialer(clock, options.backendSockets)
  const metrics = createMetrics()
  let listeningPort: number | undefined = options.port || undefined
  let openWebSockets = 0
  const tunnels = createTunnels({
    load: options.loadTunnels,
    save: options.saveTunnels,
    announce: options.announceTunnels,
    listeningPorts: options.listeningPorts,
    reserved: () =>
      reservedPorts(
        options.backends,
        listeningPort,
        [options.opencodePort(), options.opencodeReserved],
        options.reserved?.() ?? new Map(),
      ),
  })

  const api = createApi({
    ...options,
    log,
    tickets: auth.tickets,
    now: clock.now,
    sandbox: createSandboxOperations({
      secrets: options.secrets,
      tunnels,
      isListening: dialer.isListening,
      services: options.services,
      workspace: options.workspace,
    }),
  })

  const report = (name: "health-verbose" | "ready" | "metrics"): HttpResponse => {
    if (name === "metrics") {
      const body = metrics.render([...ownMetrics(), ...options.gauges()])
      return { status: 200, headers: { "content-type": "text/plain; version=0.0.4" }, body }
    }
    const components = options.components()
    const details = name === "health-verbose" ? options.details?.() : undefined
    const body = JSON.stringify({ ok: true, ...readyReport(components, clock.now()), ...details })
    const status = name === "ready" && !isReady(components) ? 503 : 200
    return { status, headers: { "content-type": "application/json" }, body }
  }

  const ownMetrics = (): readonly Metric[] => [
    gauge("sandpiper_gateway_sockets", "Open connections.", server.sockets()),
    gauge("sandpiper_gateway_websockets", "Open WebSockets.", openWebSockets),
    gauge("sandpiper_gateway_people", "Open sessions of people.", auth.sessions.size()),
    {
      ...gauge(
        "sandpiper_auth_failures_total",
        "Failed attempts to authenticate.",
        auth.attempts.total(),
      ),
      type: "counter",
    },
    gauge(
      "process_resident_memory_bytes",
      "Resident memory of the runner.",
      process.memoryUsage.rss(),
    ),
  ]

  const handleRequest = createRequestHandler({
    auth,
    api,
    tunnels,
    dialer,
    clock,
    ports: options.backends,
    allowedOrigins: options.allowedOrigins,
    sandboxOrigin: options.sandboxOrigin,
    allowSharedOrigin: options.allowSharedOrigin ?? false,
    opencodePort: options.opencodePort,
    opencodePassword: options.opencodePassword,
    serviceLog: options.services.services.logOf,
    v1Server: options.v1Server ?? (async () => undefined),
    agentDirectory: options.agentDirectory ?? ".",
    report,
    page: options.page,
    terminal: options.terminal,
    terminals: options.terminals ?? options.terminal?.terminals,
    onLoggedOut: () => {
      auth.sessions.clear()
      auth.tickets.clear()
      const connections = server.dropConnections(
        ({ route }) => route === "hub" || forwardedRoutes.has(route),
      )
      log.info("gateway.logged-out", { connections })
    },
    onError: (route, error) => log.error("gateway.failed", { route, error: describeError(error) }),
    onUpgrade: () => {
      openWebSockets += 1
      return () => {
        openWebSockets -= 1
      }
    },
  })

  const work = createWorkMeter()
  let ticks = 0
  const server = startServer({
    host: options.host,
    port: options.port,
    clock,
    onRequest: handleRequest,
    onRequestOver: (exchange) => {
      work.ended(exchange)
      if (mayHaveWritten(exchange)) options.onWritten?.()
      metrics.request(exchange.route, exchange.status, exchange.bytesIn(), exchange.bytesOut())
    },
    onRefused: (status) => metrics.request("malformed", status, 0, 0),
    isEssential: (target) => /^\/(?:health|api|v1)(?:[/?]|$)/.test(target),
    onTick: () => {
      ticks += 1
      if (ticks % SWEEP_TICKS === 0) auth.sessions.sweep()
      if (ticks % LISTEN_TICKS === 0) tunnels.checkListening()
      if (ticks % WORK_TICKS === 0 && work.sample(server.exchanges())) options.onUsed?.()
    },
    ...(options.mostSockets !== undefined && { mostSockets: options.mostSockets }),
  })
  listeningPort = server.port
  log.info("gateway.listening", {
    host: options.host,
    port: server.port,
    tokens: apiToken.length > 0,
  })

  return {
    port: server.port,
    announceTunnels: tunnels.announce,
    deleteTunnel: (name) => {
      if (!tunnels.remove(name)) tunnels.announce()
    },
    afterRestore: (jwtSecret) => {
      const connections = server.dropConnections(({ route }) => forwardedRoutes.has(route))
      log.info("gateway.connections-dropped", { connections })
      auth.changeJwtSecret(jwtSecret)
    },
    stop: async () => {
      await server.stop()
      dialer.closeIdle()
    },
  }
}

const SWEEP_TICKS = 60
/** How often the servers behind tunnels are looked for, in ticks. */
const LISTEN_TICKS = 2
const WORK_TICKS = 30
/** Routes whose requests write files, or start programs that do. */
const WRITING: ReadonlySet<string> = new Set<RouteName>([
  "v1-files",
  "v1-processes",
  "services",
  "website",
  "env",
])

const mayHaveWritten = ({ head, route, isTrusted }: HttpExchange): boolean =>
  isTrusted && WRITING.has(route) && !SAFE_METHODS.has(head.method)

const gauge = (name: string, help: string, value: number): Metric => ({
  name,
  help,
  type: "gauge",
  values: [{ value }],
})
