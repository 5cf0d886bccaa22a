/**
 * Messages for chat services outside (Slack, Telegram), in order per channel; when one is given up, the conversation says so.
 * The services have no idempotency key: a row says that its call was begun before the call. If the host dies during the
 * call, or the answer is lost, the service is asked whether it has the message. Where it cannot tell, the message is not sent
 * a second time; the conversation says that it may not have arrived.
 */
import { z } from "zod"
import { channelAddress } from "../../wire/channel.ts"
import { type ChatMessage, type ChatServices, SendError } from "./chat-services.ts"
import type { Delivery, DeliveryKind } from "./deliveries.ts"
import type { DeliveryRows } from "./delivery-rows.ts"
import type { SessionDeliveries } from "./delivery-kinds.ts"
import type { Messages } from "./messages.ts"
import type { Ports } from "./ports.ts"
import { hasRow, idRow, pathRow, readRow, readRows } from "./rows.ts"
import { splitText } from "./split-text.ts"

export interface ChatReply {
  /** The same id is the same reply. */
  readonly id: string
  readonly channel: string
  readonly text: string
  /** The host has decided that the session may write there although nobody wrote from there. */
  readonly isAllowed?: boolean
  /** A stored image or file of the conversation. */
  readonly image?: { readonly artifact: string; readonly mime: string } | undefined
}

/** One message of the service: a long reply is several. */
const chatPiece = z.object({
  reply: z.string(),
  channel: z.string(),
  text: z.string(),
  image: z.object({ artifact: z.string(), mime: z.string() }).optional(),
})
export type ChatPiece = z.output<typeof chatPiece>

export interface ChatSends {
  /**
   * Stores a reply. False for a channel that belongs to no chat service, or that no prompt has come from: the runner names the
   * channel, and the bot reaches others. Inside a transaction.
   */
  readonly add: (reply: ChatReply) => boolean
  /** The agent has replied in this channel itself: its running prompt needs no other reply. Inside a transaction. */
  readonly markReplied: (channel: string) => void
  /** The prompt has ended with this text, or with this error. Sends it unless there was a reply. Inside a transaction. */
  readonly endPrompt: (promptId: string, channel: string, end: PromptEnd) => void
  /** Files and images that a message still needs as a blob. */
  readonly artifacts: () => ReadonlySet<string>
  /** Undefined without chat services. */
  readonly kind: DeliveryKind<ChatPiece> | undefined
}

/** A prompt has come from this channel. Only the hub makes these rows. */
export const hasPrompt = (sql: Ports["sql"], channel: string): boolean =>
  hasRow(sql, "SELECT 1 FROM queue WHERE channel = ?", channel)

type PromptEnd = { readonly text: string } | { readonly error: string }

export interface ChatSendsOptions {
  readonly ports: Ports
  readonly messages: Messages
  readonly deliveries: DeliveryRows<SessionDeliveries>
  /** No message needs this file or image any more. Inside a transaction. */
  readonly released: (artifact: string) => void
}

/** A longer text is a message before the image. */
const MAX_CAPTION = 1000
/** Attempts and pauses of about 15 minutes. A service that asks for a longer pause than an hour is not waited for. */
export const CHAT_LIMITS = {
  backoff: { min: 1000, max: 5 * 60 * 1000 },
  maxAttempts: 10,
  maxWaitMs: 60 * 60 * 1000,
}

export const createChatSends = ({
  ports,
  messages,
  deliveries,
  released,
}: ChatSendsOptions): ChatSends => {
  const { sql, blobs, report } = ports
  const chats: ChatServices | undefined = ports.chats

  const add: ChatSends["add"] = ({ id, channel, text, image, isAllowed = false }) => {
    const { channelType } = channelAddress(channel)
    const limit = chats?.maxTextLength(channelType)
    if (limit === undefined) return false
    if (!isAllowed && !hasPrompt(sql, channel)) {
      report("hub.chat-send-refused", { channelType })
      return false
    }
    const pieces = splitText(text, limit)
    const isCaption = image && text.length <= MAX_CAPTION && pieces.length === 1
    const texts = image && !isCaption ? [...pieces, ""] : pieces
    for (const [index, piece] of texts.entries()) {
      const isLast = index === texts.length - 1
      deliveries.add("chat-message", {
        id: `${id}/${index}`,
        lane: `chat:${channel}`,
        payload: { reply: id, channel, text: piece, ...(isLast && image && { image }) },
      })
    }
    return true
  }

  const hasReplied = (promptId: string) =>
    hasRow(sql, "SELECT 1 FROM chat_replies WHERE prompt = ?", promptId)
  const setReplied = (promptId: string) =>
    sql.run("INSERT OR IGNORE INTO chat_replies (prompt) VALUES (?)", promptId)

  const messageOf = ({ id, payload: { text, image } }: Delivery<ChatPiece>): ChatMessage => {
    const base64 = image && blobs.get(image.artifact)
    if (!image || base64 === undefined) return { id, text }
    const path = "SELECT path FROM display_files WHERE id = ?"
    const name = readRow(sql, pathRow, path, image.artifact)?.path.split("/").at(-1)
    return { id, text, image: { base64, mime: image.mime, ...(name && { name }) } }
  }

  const settled = ({ image }: ChatPiece) => {
    if (image) released(image.artifact)
  }

  const say = (id: string, channel: string, error: string) =>
    messages.add("system", { channel, content: "", error }, { id })

  const endUnknown = ({ id, payload: { channel } }: Delivery<ChatPiece>, reason: string) => {
    report("hub.chat-send-unknown", { channelType: channelAddress(channel).channelType })
    const rest = "the message may not have arrived and is not sent again"
    say(`${id}/unknown`, channel, `${reason}: ${rest}`)
  }

  const giveUp = ({ payload: { reply, channel } }: Delivery<ChatPiece>, reason: string) => {
    for (const { id, payload } of deliveries.waiting("chat-message", chatPiece)) {
      if (payload.reply !== reply) continue
      deliveries.remove(id)
      settled(payload)
    }
    const { channelType } = channelAddress(channel)
    say(`${reply}/not-sent`, channel, `not sent to ${channelType}: ${reason}`)
  }

  return {
    add,
    markReplied: (channel) => {
      const running = readRows(
        sql,
        idRow,
        "SELECT id FROM queue WHERE channel = ? AND status = 'processing'",
        channel,
      )
      for (const { id } of running) setReplied(id)
    },
    endPrompt: (promptId, channel, end) => {
      if (chats?.maxTextLength(channelAddress(channel).channelType) === undefined) return
      if (hasReplied(promptId)) return
      const text = "text" in end ? end.text : `The turn failed: ${end.error}`
      if (text.trim() === "") return
      setReplied(promptId)
      add({ id: `end-${promptId}`, channel, text })
    },
    artifacts: () => {
      const waiting = deliveries.waiting("chat-message", chatPiece)
      return new Set(waiting.flatMap(({ payload: { image } }) => image?.artifact ?? []))
    },
    kind: chats && {
      ...CHAT_LIMITS,
      payload: chatPiece,
      send: (delivery, begin) => sendPiece(chats, delivery, messageOf(delivery), begin),
      delivered: ({ payload }) => settled(payload),
      givenUp: (delivery, reason) => {
        settled(delivery.payload)
        return delivery.mayHaveArrived ? endUnknown(delivery, reason) : giveUp(delivery, reason)
      },
    },
  }
}

/** Rejects with a `SendError`; one that `mayHaveArrived` names what happened instead of its cause. */
const sendPiece = async (
  chats: ChatServices,
  { payload, attempts, mayHaveArrived }: Delivery<ChatPiece>,
  message: ChatMessage,
  begin: () => void,
): Promise<void> => {
  const { channelType, channelId } = channelAddress(payload.channel)
  const noAnswer = `a message to ${channelType} was sent and no answer came`
  const stopped = `the hub stopped while it sent a message to ${channelType}`
  const call = async (isLook: boolean) => {
    if (isLook) return chats.wasSent(channelType, channelId, message)
    begin()
    await chats.send(channelType, channelId, message)
    return true
  }
  const run = async (isLook: boolean) => {
    try {
      return await call(isLook)
    } catch (error) {
      // An error of our own code is named only; a SendError holds no contents.
      if (!(error instanceof SendError)) throw new SendError("internal error", { retryable: false })
      // A look has failed: the next attempt must look again.
      if (!isLook && !error.mayHaveArrived) throw error
      const { retryable, retryAfterMs } = error
      throw new SendError(noAnswer, { retryable, retryAfterMs, mayHaveArrived: true })
    }
  }
  const arrived = mayHaveArrived ? await run(true) : false
  if (arrived === "unknown")
    throw new SendError(attempts === 0 ? stopped : noAnswer, {
      retryable: false,
      mayHaveArrived: true,
    })
  if (!arrived) await run(false)
}
