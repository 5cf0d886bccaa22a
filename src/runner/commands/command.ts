/** A command of the session agent: a function of its frame and of the parts of the runner that it may use. */
import type { Channels } from "../channels/channels.ts"
import type { JobStore } from "../channels/job-store.ts"
import type { Clock } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import type { FilePatch } from "./patch.ts"
import type { SnapshotStore } from "./revert-safely.ts"
import type { Approvals } from "../gateway/approvals.ts"
import type { Host } from "../host/host.ts"
import type { Executions } from "../workflow/executions.ts"
import type { Inbound, InboundFrame, OutboundFrame } from "../../wire/frames/index.ts"

export interface CommandContext {
  readonly channels: Channels
  readonly workflows: Pick<Executions, "take" | "stop">
  readonly jobs: Pick<JobStore, "messageOf">
  /** The agent sessions of all channels. */
  readonly agentSessionIds: () => readonly string[]
  readonly snapshots: SnapshotStore
  /** The changes of the workspace that git knows, whichever program made them. */
  readonly workspacePatches: () => Promise<readonly FilePatch[]>
  readonly send: (frame: OutboundFrame) => void
  readonly configure: (
    change: Inbound<"opencode-config">["config"],
    requestId: string | undefined,
  ) => void
  readonly setGitCredentials: Host["setGitCredentials"]
  /** Sends the current state to the session agent. */
  readonly reportState: () => void
  /** Removes the tunnel and sends the list of the remaining ones. */
  readonly deleteTunnel: (name: string) => Promise<void>
  readonly stop: () => void
  /** An operation waits for this permission; false if there is none. */
  readonly replyApproval: Approvals["reply"]
  readonly clock: Clock
  readonly log: Log
}

export type Command<Type extends InboundFrame["type"]> = (
  ports: CommandContext,
  frame: Inbound<Type>,
) => void | Promise<void>
