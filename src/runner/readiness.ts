/** Whether prompts can run now: the states behind /ready, and the frames that report them. */
import type { Clock } from "../lib/clock.ts"
import type { Outbound, OutboundFrame } from "../wire/frames/index.ts"
import type { Channels } from "./channels/channels.ts"
import {
  type Components,
  type ComponentStates,
  createComponentStates,
} from "./gateway/components.ts"
import type { DiskState } from "./host/disk-report.ts"
import type { PanelServices } from "./host/panel-services.ts"
import type { Link } from "./link/link.ts"

export interface ReadinessOptions {
  readonly clock: Clock
  readonly send: (frame: OutboundFrame) => void
  readonly linkState: Link["state"]
  /** What the channels do while the agent is ready: idle, or working. */
  readonly channelStatus: Channels["status"]
  /** How full the disk of the sandbox is, as far as it is known. */
  readonly disk: () => DiskState | undefined
}

export interface Readiness {
  readonly setComponent: ComponentStates["set"]
  readonly components: () => Components
  readonly agentReady: (
    url: string,
    models: Outbound<"models">["models"],
    defaultModel: string | undefined,
  ) => void
  readonly agentLost: (why: string) => void
  readonly agentFailed: (error: string) => void
  /** Sends the present state on a new connection. */
  readonly connected: () => void
  /** Sends the models that OpenCode offers and the services of the sandbox, once they are known. */
  readonly sendOffers: () => void
  readonly setServices: (services: PanelServices) => void
  /** Sends the present state on request. A request that follows `connected` directly is already satisfied. */
  readonly reportOnRequest: () => void
  /** OpenCode's port while it is ready. */
  readonly opencodePort: () => number | undefined
}

export const createReadiness = (options: ReadinessOptions): Readiness => {
  const { send } = options
  const states = createComponentStates(["link", "agent"], options.clock.now)
  let agentUrl: string | undefined
  let models: Outbound<"models"> | undefined
  let services: Outbound<"services"> | undefined
  /** The session agent's `init` follows each connection; a second idle status would look like a second readiness. */
  let isReportedByConnecting = false

  /** `ready` is separate from the status: while one channel works, the others can take prompts. */
  const report = () =>
    send({
      type: "agentStatus",
      ...(agentUrl ? options.channelStatus() : { status: "thinking", detail: "starting" }),
      ready: agentUrl !== undefined,
    })

  return {
    setComponent: states.set,
    components: () => {
      const link = options.linkState()
      if (link === "open") states.set("link", "ready")
      else states.set("link", "starting", link)
      const disk = options.disk()
      if (disk) states.set("disk", disk.state, disk.why)
      return states.read()
    },
    agentReady: (url, known, defaultModel) => {
      agentUrl = url
      states.set("agent", "ready")
      models = {
        type: "models",
        models: known,
        ...(defaultModel !== undefined && { default: defaultModel }),
      }
      send(models)
      report()
    },
    agentLost: (why) => {
      agentUrl = undefined
      states.set("agent", "starting", why)
    },
    agentFailed: (error) => {
      states.set("agent", "failed", error)
      send({ type: "agentStatus", status: "error", detail: error, ready: false })
    },
    connected: () => {
      report()
      isReportedByConnecting = true
    },
    sendOffers: () => {
      if (models) send(models)
      if (services) send(services)
    },
    setServices: (now) => {
      const next = { type: "services", ...now } as const
      if (JSON.stringify(next) === JSON.stringify(services)) return
      services = next
      send(services)
    },
    reportOnRequest: () => {
      if (!isReportedByConnecting) report()
      isReportedByConnecting = false
    },
    opencodePort: () => (agentUrl === undefined ? undefined : Number(new URL(agentUrl).port)),
  }
}
