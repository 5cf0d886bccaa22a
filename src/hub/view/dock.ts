/** What stands above the composer of a conversation: status, queue, and every open question of the session. */
import type { Interaction, QueuedPrompt } from "../../wire/clients/conversation.ts"
import { isConnected, type Status, statusOf } from "./status-words.ts"
import { toolOf, toolWords } from "./tool-words.ts"
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

/** What has not changed is the same object as in the call before, so that nothing is drawn again for it. */
export const createDock = (): typeof dockOf => {
  let former: Dock | undefined
  return (view, channel) => {
    const next = dockOf(view, channel)
    former = former === undefined ? next : keepSame(former, next)
    return former
  }
}

const keepSame = (before: Dock, { status, ...next }: Dock): Dock => {
  const kept =
    status && before.status && isSameStatus(before.status, status) ? before.status : status
  const dock: Dock = {
    ...next,
    ...(kept && { status: kept }),
    queue: isSameList(before.queue, next.queue) ? before.queue : next.queue,
    interactions: isSameList(before.interactions, next.interactions)
      ? before.interactions
      : next.interactions,
  }
  const names = ["status", "queue", "interactions", "canStop", "isStopping", "hasEnded", "isAway"]
  return (names as readonly (keyof Dock)[]).every((name) => before[name] === dock[name])
    ? before
    : dock
}

const isSameStatus = (a: Status, b: Status): boolean =>
  a.kind === b.kind &&
  a.sentence === b.sentence &&
  a.since === b.since &&
  a.plan?.done === b.plan?.done &&
  a.plan?.total === b.plan?.total

const isSameList = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  a.length === b.length && a.every((one, index) => one === b[index])

/**
 * The command that waits for this permission, where its patterns do not say it: a person allows what will run, not only the
 * folder that it uses.
 */
export const commandOf = (
  { messages }: Pick<View, "messages">,
  { messageId = "", callId, patterns = [] }: Interaction,
): string | undefined => {
  const tool = messages
    .get(messageId)
    ?.parts.map(toolOf)
    .find((one) => one?.callId === callId)
  if (!tool) return undefined
  const { kind, subject } = toolWords(tool)
  return kind === "command" && !patterns.includes(subject) ? subject : undefined
}

const hasEnded = (session: unknown): boolean =>
  typeof session === "object" &&
  session !== null &&
  (session as { readonly status?: unknown }).status === "ended"
