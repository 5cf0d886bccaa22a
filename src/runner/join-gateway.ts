/** Starts the gateway with what the other components of the runner provide to it. */
import type { Database } from "bun:sqlite"
import { relative } from "node:path"
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { readFact, writeFact } from "../lib/state-db.ts"
import type { Settings } from "../settings/settings.ts"
import type { Channels } from "./channels/channels.ts"
import { type Gateway, type GatewayOptions, startGateway } from "./gateway/gateway.ts"
import type { PageOptions } from "./gateway/page/page-door.ts"
import type { LinkMetrics } from "./gateway/link-metrics.ts"
import { notifyOverLink, requestOverLink } from "./gateway/link-requests.ts"
import { serviceSockets } from "./host/service-sockets.ts"
import type { TerminalPorts } from "./gateway/serve-terminals.ts"
import type { Link } from "./link/link.ts"
import type { Agent } from "./opencode/agent.ts"
import type { Readiness } from "./readiness.ts"
import { readListeningPorts } from "./sandbox/listening-ports.ts"
import { checkoutFields } from "./sandbox/checkout-fields.ts"
import type { Git } from "./sandbox/git.ts"
import type { Secrets } from "./sandbox/secrets.ts"
import type { V1Supervisor } from "./sandbox/v1/supervisor.ts"

export interface JoinGatewayOptions {
  readonly config: Settings
  readonly db: Database
  readonly apiToken: string
  readonly channels: Channels
  readonly link: Link
  readonly readiness: Readiness
  readonly agent: Agent
  readonly linkMetrics: LinkMetrics
  readonly git: Git
  /** Ports of the other servers of this sandbox, with their owners. */
  readonly reserved: () => ReadonlyMap<number, string>
  /** Undefined where the sandbox has no source of secrets. */
  readonly secrets: Secrets | undefined
  readonly services: GatewayOptions["services"]
  /** Undefined where the workspace is not saved. */
  readonly workspace: GatewayOptions["workspace"]
  readonly approvals: GatewayOptions["approvals"]
  readonly v1: V1Supervisor
  readonly page: PageOptions | undefined
  readonly terminal: TerminalPorts | undefined
  readonly terminals: GatewayOptions["terminals"]
  /** Files of the workspace may have changed through the gateway. */
  readonly onChanged: () => void
  /** The agent has completed the session. */
  readonly onCompleted: () => void
  readonly clock: Clock
  readonly log: Log
}

const TUNNELS_FACT = "gateway.tunnels"

export const joinGateway = (options: JoinGatewayOptions): Gateway => {
  const { config, db, apiToken, channels, link, readiness, agent, linkMetrics, secrets } = options
  const { clock, log } = options
  return startGateway({
    host: config.gatewayHost,
    port: config.gatewayPort,
    sessionId: config.sessionId,
    jwtSecret: config.jwtSecret,
    apiToken,
    allowedOrigins: config.allowedOrigins ?? [],
    sandboxOrigin: config.sandboxOrigin,
    allowSharedOrigin: config.allowSharedOrigin,
    backends: { vscode: config.vscodePort, vnc: config.vncPort, ttyd: config.ttydPort },
    backendSockets: socketsOf(config),
    clock,
    log,
    reserved: options.reserved,
    opencodeReserved: Number(new URL(config.opencodeUrl).port) || undefined,
    opencodePort: readiness.opencodePort,
    opencodePassword: config.opencodePassword,
    components: readiness.components,
    details: () => ({ agent: agent.status() }),
    gauges: () => linkMetrics.read(link.counters(), readiness.components()["agent"]?.restarts ?? 0),
    loadTunnels: () => readFact(db, TUNNELS_FACT),
    saveTunnels: (text) => writeFact(db, TUNNELS_FACT, text),
    announceTunnels: (tunnels) => link.send({ type: "tunnels", tunnels: [...tunnels] }),
    listeningPorts: readListeningPorts,
    request: requestOverLink(link.request, checkoutFields(options.git)),
    notify: notifyOverLink({
      send: link.send,
      originOf: channels.originOf,
      onCompleted: options.onCompleted,
    }),
    secrets,
    services: options.services,
    workspace: options.workspace,
    approvals: options.approvals,
    v1Server: options.v1.address,
    agentDirectory: relative(config.workDir, options.services.workDir) || ".",
    page: options.page,
    terminal: options.terminal,
    terminals: options.terminals,
    onWritten: options.onChanged,
    onUsed: () => {
      link.send({ type: "sandbox-used" })
      options.onChanged()
    },
  })
}

/** Of the services that this runner starts; a backend that another program starts is reached at its port. */
const socketsOf = ({ stateDir, services, vscodePort, ttydPort }: Settings): Map<number, string> => {
  const sockets = serviceSockets(stateDir)
  if (!sockets) return new Map()
  return new Map([
    ...(services.includes("vscode") ? [[vscodePort, sockets.vscode] as const] : []),
    ...(services.includes("ttyd") ? [[ttydPort, sockets.ttyd] as const] : []),
  ])
}
