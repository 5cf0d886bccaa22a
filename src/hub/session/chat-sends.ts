/**
 * Messages for chat services outside (Slack, Telegram). They are rows, stored in the transaction that causes them, and are
 * sent one after the other per channel. A failed one is retried with backoff; when it is given up, the conversation says so.
 * The services have no idempotency key: a row says that its call was begun before the call. If the host dies during the
 * call, or the answer is lost, the service is asked whether it has the message. Where it cannot tell, the message is not sent
 * a second time; the conversation says that it may not have arrived.
 */
import { channelAddress } from "../../wire/channel.ts"
import { type ChatMessage, type ChatServices, SendError } from "./chat-services.ts"
import { retryInMs } from "./chat-retry.ts"
import type { Deadlines } from "./deadlines.ts"
import type { Messages } from "./messages.ts"
import type { Ports } from "./ports.ts"
import { hasRow, idRow, pathRow, readRow, readRows, type SendRow, sendRow } from "./rows.ts"
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

export interface ChatSends {
  /**
   * Stores a reply. Does nothing for a channel that belongs to no chat service, or that no prompt has come from: the runner
   * names the channel, and the bot reaches others. Inside a transaction.
   */
  readonly add: (reply: ChatReply) => void
  /** The agent has replied in this channel itself: its running prompt needs no other reply. Inside a transaction. */
  readonly markReplied: (channel: string) => void
  /** The prompt has ended with this text, or with this error. Sends it unless there was a reply. Inside a transaction. */
  readonly endPrompt: (promptId: string, channel: string, end: PromptEnd) => void
  /** Rows may be due: the next `sendDue` looks at them. */
  readonly wake: () => void
  /** After a commit: sends what is due. */
  readonly sendDue: (commit: Commit) => void
}

/** A prompt has come from this channel. Only the hub makes these rows. */
export const hasPrompt = (sql: Ports["sql"], channel: string): boolean =>
  hasRow(sql, "SELECT 1 FROM queue WHERE channel = ?", channel)

type PromptEnd = { readonly text: string } | { readonly error: string }
type Commit = (work: () => void) => void
type Outcome =
  | { readonly is: "sent" }
  | { readonly is: "unknown" }
  | { readonly is: "failed"; readonly failure: unknown }

/** A longer text is a message before the image. */
const MAX_CAPTION = 1000
/** A host that dies while it sends looks at the row again after this time. */
const LOOK_AGAIN_MS = 60_000

export const createChatSends = (
  ports: Ports,
  messages: Messages,
  deadlines: Deadlines,
): ChatSends => {
  const { sql, blobs, now, report } = ports
  const chats: ChatServices | undefined = ports.chats
  /** Channels with a call in progress. */
  const busy = new Set<string>()
  /** True at first: the rows may be from before a restart. */
  let isAwake = true

  const add: ChatSends["add"] = ({ id, channel, text, image, isAllowed = false }) => {
    const { channelType } = channelAddress(channel)
    const limit = chats?.maxTextLength(channelType)
    if (limit === undefined) return
    if (!isAllowed && !hasPrompt(sql, channel))
      return report("hub.chat-send-refused", { channelType })
    const pieces = splitText(text, limit)
    const isCaption = image && text.length <= MAX_CAPTION && pieces.length === 1
    const rows = image && !isCaption ? [...pieces, ""] : pieces
    for (const [index, piece] of rows.entries()) {
      const isLast = index === rows.length - 1
      sql.run(
        `INSERT OR IGNORE INTO sends (id, reply, channel, text, artifact, mime, due_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
        `${id}/${index}`,
        id,
        channel,
        piece,
        (isLast ? image?.artifact : undefined) ?? null,
        (isLast ? image?.mime : undefined) ?? null,
        now(),
      )
    }
    lookAgain(channel)
  }

  const lookAgain = (channel: string) => {
    isAwake = true
    if (hasRow(sql, "SELECT 1 FROM sends WHERE channel = ?", channel))
      deadlines.set("send", channel, now() + LOOK_AGAIN_MS)
    else deadlines.clear("send", channel)
  }

  const hasReplied = (promptId: string) =>
    hasRow(sql, "SELECT 1 FROM chat_replies WHERE prompt = ?", promptId)
  const setReplied = (promptId: string) =>
    sql.run("INSERT OR IGNORE INTO chat_replies (prompt) VALUES (?)", promptId)

  const messageOf = ({ id, text, artifact, mime }: SendRow): ChatMessage => {
    const base64 = artifact === null ? undefined : blobs.get(artifact)
    const shown = readRow(sql, pathRow, "SELECT path FROM display_files WHERE id = ?", artifact)
    const name = shown?.path.split("/").at(-1)
    const image = { base64: base64 ?? "", mime: mime ?? "image/png", ...(name && { name }) }
    return { id, text, ...(base64 !== undefined && { image }) }
  }

  /** Resolves to false if an earlier attempt may have arrived and the service cannot tell. */
  const deliver = async (row: SendRow): Promise<boolean> => {
    const { channelType, channelId } = channelAddress(row.channel)
    const message = messageOf(row)
    if (row.started_at !== null) {
      const arrived = await chats?.wasSent(channelType, channelId, message).catch(stillUnknown)
      if (arrived === true || arrived === undefined) return true
      if (arrived === "unknown") return false
    }
    sql.run("UPDATE sends SET started_at = ? WHERE id = ?", now(), row.id)
    await chats?.send(channelType, channelId, message)
    return true
  }

  /** The look has failed: the next attempt must look again. */
  const stillUnknown = (error: unknown): never => {
    if (!(error instanceof SendError)) throw error
    const { message, retryable, retryAfterMs } = error
    throw new SendError(message, { retryable, retryAfterMs, mayHaveArrived: true })
  }

  const trySending = async (row: SendRow): Promise<Outcome> => {
    try {
      return (await deliver(row)) ? { is: "sent" } : { is: "unknown" }
    } catch (error) {
      return { is: "failed", failure: error }
    }
  }

  const giveUp = (row: SendRow, reason: string) => {
    sql.run("DELETE FROM sends WHERE reply = ?", row.reply)
    const error = `not sent to ${channelAddress(row.channel).channelType}: ${reason}`
    const ids = { id: `${row.reply}/not-sent` }
    messages.add("system", { channel: row.channel, content: "", error }, ids)
  }

  /** The host died while this message was sent, or the answer of the service was lost. */
  const endUnknown = ({ channel, id, attempts }: SendRow) => {
    const { channelType } = channelAddress(channel)
    report("hub.chat-send-unknown", { channelType })
    sql.run("DELETE FROM sends WHERE id = ?", id)
    const cause =
      attempts === 0
        ? `the hub stopped while it sent a message to ${channelType}`
        : `a message to ${channelType} was sent and no answer came`
    const error = `${cause}: the message may not have arrived and is not sent again`
    messages.add("system", { channel, content: "", error }, { id: `${id}/unknown` })
    lookAgain(channel)
  }

  const settle = (row: SendRow, outcome: Outcome) => {
    const { channel, id } = row
    if (outcome.is === "unknown") return endUnknown(row)
    if (outcome.is === "sent") {
      sql.run("DELETE FROM sends WHERE id = ?", id)
      return lookAgain(channel)
    }
    const attempts = row.attempts + 1
    const known = outcome.failure instanceof SendError ? outcome.failure : undefined
    const retryable = known?.retryable ?? false
    const wait = retryInMs(
      { attempts, retryable, retryAfterMs: known?.retryAfterMs },
      ports.random(),
    )
    const { channelType } = channelAddress(channel)
    report("hub.chat-send-failed", { channelType, attempts, isLast: wait === undefined })
    const mayHaveArrived = known?.mayHaveArrived === true
    if (wait === undefined) {
      if (mayHaveArrived) return endUnknown({ ...row, attempts })
      // An error of our own code is logged by its name only; a SendError holds no contents.
      giveUp(row, known?.message ?? "internal error")
      return lookAgain(channel)
    }
    const dueAt = now() + wait
    // A row whose call was begun is looked for before it is sent again.
    sql.run(
      `UPDATE sends SET attempts = ?, due_at = ?${mayHaveArrived ? "" : ", started_at = NULL"} WHERE id = ?`,
      attempts,
      dueAt,
      id,
    )
    deadlines.set("send", channel, dueAt)
  }

  const sendOne = async (row: SendRow, commit: Commit): Promise<void> => {
    const outcome = await trySending(row)
    busy.delete(row.channel)
    commit(() => settle(row, outcome))
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
    wake: () => {
      isAwake = true
    },
    sendDue: (commit) => {
      if (!chats || !isAwake) return
      isAwake = false
      const rows = readRows(
        sql,
        sendRow,
        "SELECT * FROM sends WHERE place IN (SELECT min(place) FROM sends GROUP BY channel)",
      )
      for (const row of rows) {
        if (row.due_at > now() || busy.has(row.channel)) continue
        busy.add(row.channel)
        void sendOne(row, commit)
      }
    },
  }
}
