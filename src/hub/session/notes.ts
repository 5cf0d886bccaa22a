/** Lines of the conversation that are not prompts, and notifications. Both are known by their ids: a repeated one changes nothing. */
import { MAIN_CHANNEL } from "../../wire/channel.ts"
import { z } from "zod"
import { storeArtifact } from "./artifacts.ts"
import { openApproval } from "./approvals.ts"
import { hasEnded, type NamedValues } from "./named-values.ts"
import type { WorkflowApproval } from "./ports.ts"
import type { SessionContext } from "./session-context.ts"

export interface Note {
  readonly id: string
  readonly role: "user" | "assistant" | "system"
  readonly content: string
  readonly channel?: string
  readonly image?: { readonly base64: string; readonly mime: string }
  /** It is a reply of the agent: sent to the chat service of its channel too. */
  readonly reply?: boolean
  /** Another message follows it: the final text of the turn is sent too. */
  readonly followUp?: boolean
  /** It asks people for this approval, which clients show until it is decided. */
  readonly approval?: WorkflowApproval
}

export type Notification = Readonly<Record<string, unknown>> & { readonly id: string }

/** The newest ones: the named value is sent as a whole. Agents read older ones with `mailbox_check`. */
const MAX_NOTIFICATIONS = 50
const notificationList = z.array(z.looseObject({ id: z.string() }))

/** Call in a transaction. */
export const addNote = (
  context: SessionContext,
  {
    id,
    role,
    content,
    channel = MAIN_CHANNEL,
    image,
    reply = false,
    followUp = false,
    approval,
  }: Note,
): void => {
  const artifact =
    image &&
    storeArtifact(context, {
      ...image,
      id: blobIdOf(context.ports.digest(id)),
      description: content,
      messageId: id,
    })
  const extra = artifact === undefined ? {} : { extra: { artifact } }
  context.messages.add(role, { channel, content, ...extra }, { id })
  if (approval && !hasEnded(context.values)) openApproval(context, channel, approval)
  if (!reply) return
  if (!followUp) context.chatSends.markReplied(channel)
  const picture = artifact === undefined ? undefined : { artifact, mime: image?.mime ?? "" }
  context.chatSends.add({ id, channel, text: content, image: picture, isAllowed: true })
}

/** Call in a transaction. */
export const addNotification = (values: NamedValues, notification: Notification): void => {
  const known = notificationList.parse(values.getPublic("notifications") ?? [])
  if (known.some(({ id }) => id === notification.id)) return
  values.setPublic("notifications", [...known, notification].slice(-MAX_NOTIFICATIONS))
}

/** An id of our own, the same for a repeated note: its id comes from a runner and may be any text. */
const blobIdOf = (digest: string): string => digest.slice(digest.indexOf(":") + 1)
