/** Makes the gateway's parts and joins them; everything it needs from the rest of the runner comes in as a function. */
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { ApiError, type ApiPorts, createApi } from "./api.ts"
import { createRequestHandler } from "./handle-request.ts"
import { createAuth } from "./auth.ts"
import { type BackendPorts, reservedPorts } from "./proxy/backends.ts"
import type { HttpResponse } from "./http/response.ts"
import { createMetrics, type Gauge } from "./metrics.ts"
import { createDialer } from "./tcp/backend-connections.ts"
import { isReady, type Components, readyReport } from "./components.ts"
import { passedOn } from "./routes.ts"
import { startServer } from "./tcp/server.ts"
import { createTunnels, pathOf, type Tunnel } from "../sandbox/tunnels.ts"

export interface GatewayOptions {
  readonly host: string
  readonly port: number
  readonly sessionId: string
  readonly jwtSecret: string | undefined
  readonly apiToken: string
  readonly allowedOrigins: readonly string[]
  readonly backends: BackendPorts
  readonly clock: Clock
  readonly log: Log
  /** Where OpenCode listens, once it does. */
  readonly opencodePort: () => number | undefined
  /** The port that is OpenCode's whether it runs or not. */
  readonly opencodeReserved?: number | undefined
  readonly components: () => Components
  /** More that `/health?verbose` tells to whoever may ask it. */
  readonly details?: () => Readonly<Record<string, unknown>>
  /** Numbers of other parts, for /metrics. */
  readonly gauges: () => readonly Gauge[]
  /** What tunnels there were, and a place to remember them. */
  readonly loadTunnels: () => string | undefined
  readonly saveTunnels: (text: string) => void
  readonly announceTunnels: (tunnels: readonly (Tunnel & { readonly path: string })[]) => void
  readonly request: ApiPorts["request"]
  readonly notify: ApiPorts["notify"]
  /** Operations of the sandbox that other parts carry out, by name. */
  readonly local?: ApiPorts["local"]
  readonly mostSockets?: number
}

export interface Gateway {
  readonly port: number
  /** Sends the whole list of tunnels again: after a reconnect, and as the answer to a question about it. */
  readonly announceTunnels: () => void
  readonly deleteTunnel: (name: string) => void
  /**
   * The sandbox was restored: whoever is connected to a backend is dropped, since nobody knows who is at the other end,
   * and tokens are checked with this key from now on. The agent's own calls go on.
   */
  readonly afterRestore: (jwtSecret: string | undefined) => void
  readonly stop: () => Promise<void>
}

export const startGateway = (options: GatewayOptions): Gateway => {
  const { clock, log, apiToken } = options
  const auth = createAuth({ ...options, now: clock.now })
  const dialer = createDialer(clock)
  const metrics = createMetrics()
  let listening: number | undefined = options.port || undefined
  let upgraded = 0
  const tunnels = createTunnels({
    load: options.loadTunnels,
    save: options.saveTunnels,
    announce: options.announceTunnels,
    reserved: () =>
      reservedPorts(options.backends, listening, [
        options.opencodePort(),
        options.opencodeReserved,
      ]),
  })

  const api = createApi({
    ...options,
    log,
    tickets: auth.tickets,
    now: clock.now,
    local: {
      ...options.local,
      "list-tunnels": async () => ({
        tunnels: await Promise.all(
          tunnels.list().map(async (tunnel) => ({
            ...tunnel,
            path: pathOf(tunnel.name),
            listening: await dialer.isListening(tunnel.port),
          })),
        ),
      }),
      "register-tunnel": (input) => {
        // The operation's schema has checked these; a protocol that is not named is any.
        const tunnel = { protocol: "auto", ...input } as unknown as Tunnel
        const refused = tunnels.register(tunnel)
        if (refused) throw new ApiError(409, "port-taken", refused.refused)
        return { ok: true, tunnel: { ...tunnel, path: pathOf(tunnel.name) } }
      },
      "unregister-tunnel": (input) => {
        const name = String(input["name"])
        if (!tunnels.remove(name))
          throw new ApiError(404, "not-found", `there is no tunnel ${name}`)
        return { ok: true }
      },
    },
  })

  const report = (name: "health-verbose" | "ready" | "metrics"): HttpResponse => {
    if (name === "metrics") {
      const body = metrics.render([...ownGauges(), ...options.gauges()])
      return { status: 200, headers: { "content-type": "text/plain; version=0.0.4" }, body }
    }
    const parts = options.components()
    const details = name === "health-verbose" ? options.details?.() : undefined
    const body = JSON.stringify({ ok: true, ...readyReport(parts, clock.now()), ...details })
    const status = name === "ready" && !isReady(parts) ? 503 : 200
    return { status, headers: { "content-type": "application/json" }, body }
  }

  const ownGauges = (): readonly Gauge[] => [
    gauge("sandpiper_gateway_sockets", "Connections that are open.", server.sockets()),
    gauge("sandpiper_gateway_websockets", "WebSockets that are open.", upgraded),
    gauge("sandpiper_gateway_people", "Sessions of people that are open.", auth.sessions.size()),
    {
      ...gauge(
        "sandpiper_auth_failures_total",
        "Attempts with a bad token.",
        auth.attempts.total(),
      ),
      type: "counter",
    },
    gauge("process_resident_memory_bytes", "Memory of the runner.", process.memoryUsage.rss()),
  ]

  const handleRequest = createRequestHandler({
    auth,
    api,
    tunnels,
    dialer,
    clock,
    ports: options.backends,
    allowedOrigins: options.allowedOrigins,
    opencodePort: options.opencodePort,
    report,
    failed: (route, error) => log.error("gateway.failed", { route, error: describeError(error) }),
    socketOpened: () => {
      upgraded += 1
      return () => {
        upgraded -= 1
      }
    },
  })

  let ticks = 0
  const server = startServer({
    host: options.host,
    port: options.port,
    clock,
    onRequest: handleRequest,
    onRequestOver: (exchange) =>
      metrics.request(exchange.route, exchange.status, exchange.bytesIn(), exchange.bytesOut()),
    onRefused: (status) => metrics.request("malformed", status, 0, 0),
    onTick: () => {
      ticks += 1
      if (ticks % SWEEP_TICKS === 0) auth.sessions.sweep()
    },
    ...(options.mostSockets !== undefined && { mostSockets: options.mostSockets }),
  })
  listening = server.port
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
      const connections = server.dropConnections(({ route: note }) => passedOn.has(note))
      log.info("gateway.dropped", { connections })
      auth.changeJwtSecret(jwtSecret)
    },
    stop: async () => {
      await server.stop()
      dialer.closeIdle()
    },
  }
}

const SWEEP_TICKS = 60

const gauge = (name: string, help: string, value: number): Gauge => ({
  name,
  help,
  type: "gauge",
  values: [{ value }],
})
