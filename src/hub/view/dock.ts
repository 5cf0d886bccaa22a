/** What stands above the composer of a conversation: status, queue, and every open question of the session. */
import type { Interaction, QueuedPrompt } from "../../wire/clients/conversation.ts"
import { isConnected, type Status, statusOf } from "./status-words.ts"
import type { View } from "./view.ts"

export interface Dock {
  readonly status?: Status
  /** Queued prompts of the channel, in the order in which they run. */
  readonly queue: readonly QueuedPrompt[]
  /** Open questions and permissions of the whole session; those of this channel first. */
  readonly interactions: readonly Interaction[]
  /** A turn of the channel runs and can be stopped. */
  readonly canStop: boolean
  readonly isStopping: boolean
  /** The session has ended: it takes no more prompts. */
  readonly hasEnded: boolean
  readonly isAway: boolean
}

export const dockOf = (view: View, channel: string): Dock => {
  const own = view.queue.filter((prompt) => prompt.channel === channel)
  const status = statusOf(view, channel)
  const isOwn = (interaction: Interaction) => interaction.channel === channel
  return {
    ...(status && { status }),
    queue: own.filter((prompt) => prompt.status === "queued"),
    interactions: [
      ...view.interactions.filter(isOwn),
      ...view.interactions.filter((interaction) => !isOwn(interaction)),
    ],
    canStop: own.some((prompt) => prompt.status === "processing"),
    isStopping: own.some((prompt) => prompt.status === "stopping"),
    hasEnded: hasEnded(view.state["session"]),
    isAway: !isConnected(view.state["runner"]),
  }
}

const hasEnded = (session: unknown): boolean =>
  typeof session === "object" &&
  session !== null &&
  (session as { readonly status?: unknown }).status === "ended"
