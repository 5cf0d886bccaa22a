/** What a verb of the session agent may use; a verb is a function of these and its frame. */
import type { Channels } from "../channels/channels.ts"
import type { JobStore } from "../channels/job-store.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import type { Executions } from "../workflow/executions.ts"
import type { Inbound, InboundFrame, OutboundFrame } from "../../wire/frames/index.ts"

export interface CommandContext {
  readonly channels: Channels
  readonly workflows: Pick<Executions, "take" | "stop">
  readonly jobs: Pick<JobStore, "messageOf">
  /** The OpenCode sessions of all channels. */
  readonly agentSessionIds: () => readonly string[]
  readonly send: (frame: OutboundFrame) => void
  readonly configure: (change: Inbound<"opencode-config">["config"]) => void
  /** Tells the session agent what is true now. */
  readonly reportState: () => void
  /** Takes the tunnel down; all that are left. */
  readonly deleteTunnel: (name: string) => Promise<void>
  readonly stop: () => void
  readonly clock: Clock
  readonly log: Log
}

export type Command<Type extends InboundFrame["type"]> = (
  ports: CommandContext,
  frame: Inbound<Type>,
) => void | Promise<void>
