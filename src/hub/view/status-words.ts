/** The sentence above the composer: what the agent does now, and for how long. */
import type { MessageWithParts } from "../../wire/clients/conversation.ts"
import { workspaceOf } from "./paths.ts"
import { activityOf, toolOf } from "./tool-words.ts"
import { childOf, planItems } from "./turns.ts"
import type { View } from "./view.ts"

export interface Status {
  /** `starting` and `away`: no runner works on the prompts, they wait. */
  readonly kind: "working" | "waiting" | "stopping" | "starting" | "away"
  readonly sentence: string
  /** When the work started, in milliseconds since 1970. */
  readonly since?: number
  readonly plan?: { readonly done: number; readonly total: number }
}

/** `undefined` when the agent has nothing to do in this channel. */
export const statusOf = (view: View, channel: string): Status | undefined => {
  const open = view.queue.filter((prompt) => prompt.channel === channel)
  const running = open.find(({ status }) => status !== "queued")
  if (!running) return open.length === 0 ? undefined : waitingStatus(view)
  const reply = streamingReply(view, channel)
  const since = reply?.createdAt ?? running.createdAt
  const plan = reply && planOf(reply)
  const rest = { since, ...(plan && { plan }) }
  if (running.status === "stopping") return { kind: "stopping", sentence: "Stopping", ...rest }
  if (view.interactions.some((interaction) => interaction.channel === channel))
    return { kind: "waiting", sentence: "Waiting for your answer", ...rest }
  const workspace = workspaceOf(view.state)
  return { kind: "working", sentence: reply ? activity(reply, workspace) : "Thinking", ...rest }
}

const waitingStatus = (view: View): Status => {
  if (isConnected(view.state["runner"]))
    return { kind: "starting", sentence: "The agent is starting (usually 3 s)" }
  return { kind: "away", sentence: "The sandbox is away. Prompts wait." }
}

export const isConnected = (runner: unknown): boolean =>
  typeof runner === "object" &&
  runner !== null &&
  (runner as { readonly connected?: unknown }).connected === true

/** The newest reply of the channel that still streams. */
const streamingReply = (view: View, channel: string): MessageWithParts | undefined => {
  const id = view.order.findLast((one) => {
    const message = view.messages.get(one)
    return message?.channel === channel && message.status === "streaming"
  })
  return id === undefined ? undefined : view.messages.get(id)
}

const activity = ({ parts }: MessageWithParts, workspace: string): string => {
  const own = parts.filter((part) => childOf(part) === undefined)
  const running = own.map(toolOf).findLast((tool) => tool?.status === "running")
  if (running) return activityOf(running, workspace)
  return own.at(-1)?.kind === "text" ? "Writing" : "Thinking"
}

const planOf = ({ parts }: MessageWithParts): Status["plan"] => {
  const items = planItems(parts.findLast(({ kind }) => kind === "todo")?.data)
  if (items.length === 0) return undefined
  return {
    done: items.filter(({ status }) => status === "completed").length,
    total: items.length,
  }
}
