/** Joins the link to the session agent: its outbox, its counters, and what happens when it opens or a frame arrives. */
import type { Database } from "bun:sqlite"
import type { Clock } from "../lib/clock.ts"
import type { Late } from "../lib/late.ts"
import { describeError, type Log } from "../lib/log.ts"
import type { Settings } from "../settings/settings.ts"
import type { CommandFrame } from "../wire/frames/index.ts"
import type { Channels } from "./channels/channels.ts"
import type { createCommandHandler } from "./commands/index.ts"
import { createLinkMetrics, type LinkMetrics } from "./gateway/link-metrics.ts"
import type { Hibernation } from "./host/snapshot-hooks.ts"
import { createLink, type Link } from "./link/link.ts"
import { createOutbox } from "./link/outbox.ts"
import { openOutboxStore, readEpoch } from "./link/outbox-store.ts"
import type { Agent } from "./opencode/agent.ts"
import type { Readiness } from "./readiness.ts"
import type { DisplayReporter } from "./sandbox/display/report-display.ts"
import type { Executions } from "./workflow/executions.ts"

/** Components that the link and the host need and that need the link and the host themselves. */
export interface Joined {
  readonly channels: Channels
  readonly workflows: Executions
  readonly display: DisplayReporter
  readonly readiness: Readiness
  readonly agent: Agent
  readonly inbound: ReturnType<typeof createCommandHandler>
  readonly hibernation: Hibernation
}

export interface JoinLinkOptions {
  readonly config: Settings
  readonly address: { readonly url: string; readonly token: string }
  readonly version: string
  readonly db: Database
  readonly joined: Late<Joined>
  readonly gatewayUrl: () => string | undefined
  readonly directory: string
  readonly announceTunnels: () => void
  readonly isStopping: () => boolean
  readonly onEnd: (code: number, why: string) => void
  readonly clock: Clock
  readonly log: Log
}

const OUTBOX_BYTES = 64 * 1024 * 1024
/** `up` leaves git as the person has set it up. */
const acceptsOf = ({ command }: Settings): readonly CommandFrame["type"][] =>
  command === "run" ? ["git-credentials"] : []

export const joinLink = (
  options: JoinLinkOptions,
): { readonly link: Link; readonly metrics: LinkMetrics } => {
  const { config, db, joined, clock, log } = options
  const outbox = createOutbox({
    // One transaction: a frame and the turn or workflow state that it reports.
    store: openOutboxStore(db, {
      write: () => {
        joined.get().channels.persist()
        joined.get().workflows.persist()
        joined.get().display.persist()
      },
      done: () => {
        joined.get().channels.persisted()
        joined.get().workflows.persisted()
        joined.get().display.persisted()
      },
    }),
    maxBytes: OUTBOX_BYTES,
    onStoreFailure: (error) => log.error("link.not-stored", { error: describeError(error) }),
  })
  const metrics = createLinkMetrics()
  const link = createLink({
    ...options.address,
    sessionId: config.sessionId,
    version: options.version,
    epoch: readEpoch(db, () => crypto.randomUUID()),
    outbox,
    clock,
    log,
    gatewayUrl: options.gatewayUrl,
    directory: options.directory,
    accepts: acceptsOf(config),
    active: () => joined.get().channels.active(),
    onFrame: (frame) => {
      // A frame that arrives during shutdown is not acknowledged: the next runner receives it again.
      if (options.isStopping()) return
      joined.get().hibernation.whenAwake(() => joined.get().inbound(frame))
    },
    onConnected: () => {
      joined.get().agent.linkOpen()
      joined.get().readiness.connected()
      options.announceTunnels()
      joined.get().readiness.sendOffers()
    },
    taps: [metrics.onFrameSent, (frame) => joined.get().channels.onFrameSent(frame)],
    onEnd: options.onEnd,
  })
  return { link, metrics }
}
