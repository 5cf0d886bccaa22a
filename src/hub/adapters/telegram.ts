/**
 * Telegram: messages come in through the bot's webhook, with the secret that was set for it; text goes out with
 * `sendMessage`, images with `sendPhoto`, other files with `sendDocument`. A chat is a channel of the session, and so is
 * each topic of a forum: `-100123:7`.
 */
import { parseJson } from "../../lib/json.ts"
import { parseLimitedJson } from "../../wire/json-limits.ts"
import { z } from "zod"
import { readLimitedText } from "../../lib/read-limited.ts"
import { sameText } from "../../lib/constant-time.ts"
import {
  type ChannelAdapter,
  downloadFile,
  MAX_REPLY_BYTES,
  mayHaveArrived,
  type IncomingFile,
  type IncomingMessage,
  readCall,
  type Received,
  refused,
} from "./adapter.ts"
import { SendError } from "../session/chat-services.ts"

export interface TelegramOptions {
  readonly botToken: string
  /** The `secret_token` given to `setWebhook`. */
  readonly secretToken: string
  /** `https://api.telegram.org` unless a test says otherwise. */
  readonly apiUrl?: string
}

const TEXT_LENGTH = 4096
const CAPTION_LENGTH = 1024

const fileRef = z.object({
  file_id: z.string(),
  mime_type: z.string().optional(),
  file_name: z.string().optional(),
})

const update = z.object({
  update_id: z.number(),
  message: z
    .object({
      message_id: z.number(),
      message_thread_id: z.number().optional(),
      is_topic_message: z.boolean().optional(),
      chat: z.object({ id: z.number() }),
      from: z
        .object({
          id: z.number(),
          is_bot: z.boolean(),
          first_name: z.string(),
          last_name: z.string().optional(),
          username: z.string().optional(),
        })
        .optional(),
      text: z.string().optional(),
      caption: z.string().optional(),
      /** The same picture in several sizes, the largest last. */
      photo: z.array(fileRef).optional(),
      document: fileRef.optional(),
      voice: fileRef.optional(),
      audio: fileRef.optional(),
    })
    .optional(),
})

const apiReply = z.object({
  ok: z.boolean(),
  result: z.unknown().optional(),
  description: z.string().optional(),
  error_code: z.number().optional(),
  parameters: z.object({ retry_after: z.number().optional() }).optional(),
})

export const createTelegramAdapter = (options: TelegramOptions): ChannelAdapter => {
  const { botToken, secretToken, apiUrl = "https://api.telegram.org" } = options

  const call = async (method: string, body: object | FormData): Promise<unknown> => {
    const what = `Telegram ${method}`
    const isForm = body instanceof FormData
    let response: Response
    try {
      response = await fetch(`${apiUrl}/bot${botToken}/${method}`, {
        method: "POST",
        ...(!isForm && { headers: { "content-type": "application/json" } }),
        body: isForm ? body : JSON.stringify(body),
        redirect: "manual",
        signal: AbortSignal.timeout(CALL_MS),
      })
    } catch (error) {
      // The error of fetch names the address, and the address holds the token.
      throw new SendError(`${what}: the request failed`, {
        retryable: true,
        mayHaveArrived: mayHaveArrived(error),
      })
    }
    const parsed = apiReply.safeParse(
      parseJson((await readLimitedText(response, MAX_REPLY_BYTES).catch(() => undefined)) ?? ""),
    )
    if (!parsed.success)
      throw new SendError(`${what}: HTTP ${response.status}`, {
        retryable: response.ok || response.status >= 500,
        mayHaveArrived: response.ok,
      })
    const { ok, result, description, error_code: code = response.status, parameters } = parsed.data
    if (ok) return result
    const seconds = parameters?.retry_after
    throw new SendError(`${what}: ${description ?? `HTTP ${code}`}`, {
      retryable: code === 429 || code >= 500,
      retryAfterMs: seconds === undefined ? undefined : seconds * 1000,
    })
  }

  const load = async (id: string): Promise<Uint8Array<ArrayBuffer>> => {
    const found = z
      .object({ file_path: z.string() })
      .safeParse(await call("getFile", { file_id: id }))
    if (!found.success) throw new SendError("Telegram getFile: no file_path", { retryable: false })
    return downloadFile("Telegram file", `${apiUrl}/file/bot${botToken}/${found.data.file_path}`)
  }

  const messagesOf = ({ message }: z.output<typeof update>): IncomingMessage[] => {
    if (!message?.from || message.from.is_bot) return []
    const { chat, from, message_id, message_thread_id, is_topic_message } = message
    const text = (message.text ?? message.caption ?? "").trim()
    const photo = message.photo?.at(-1)
    const files: IncomingFile[] = [
      ...(photo
        ? [{ mime: "image/jpeg", name: "photo.jpg", load: () => load(photo.file_id) }]
        : []),
      ...[message.document, message.voice, message.audio].flatMap((file) =>
        file
          ? [
              {
                mime: file.mime_type ?? "application/octet-stream",
                name: file.file_name ?? "file",
                load: () => load(file.file_id),
              },
            ]
          : [],
      ),
    ]
    if (text === "" && files.length === 0) return []
    const topic = is_topic_message === true ? message_thread_id : undefined
    const name = [from.first_name, from.last_name].filter(Boolean).join(" ")
    return [
      {
        id: `telegram-${chat.id}-${message_id}`,
        channelId: topic === undefined ? String(chat.id) : `${chat.id}:${topic}`,
        text,
        author: { id: String(from.id), name: name || (from.username ?? String(from.id)) },
        files,
      },
    ]
  }

  return {
    type: "telegram",
    maxTextLength: TEXT_LENGTH,
    receive: async (request): Promise<Received> => {
      const given = request.headers.get("x-telegram-bot-api-secret-token") ?? ""
      if (!sameText(given, secretToken)) return refused(401, "the secret token is wrong")
      const body = await readCall(request)
      if (typeof body !== "string") return body
      const parsed = update.safeParse(parseLimitedJson(body))
      // Telegram repeats an update until it gets a 2xx: one that cannot be read is accepted and ignored.
      return {
        response: Response.json({ ok: true }),
        messages: parsed.success ? messagesOf(parsed.data) : [],
      }
    },
    send: async (channelId, text) => {
      await call("sendMessage", { ...placeOf(channelId), text })
    },
    attach: async (channelId, { name, mime, bytes, caption }) => {
      const isPhoto = /^image\/(png|jpeg|webp)$/.test(mime)
      const form = new FormData()
      for (const [field, value] of Object.entries(placeOf(channelId)))
        form.set(field, String(value))
      if (caption !== "") form.set("caption", caption.slice(0, CAPTION_LENGTH))
      form.set(isPhoto ? "photo" : "document", new Blob([bytes], { type: mime }), name)
      await call(isPhoto ? "sendPhoto" : "sendDocument", form)
    },
  }
}

const CALL_MS = 15_000

const placeOf = (channelId: string): { chat_id: string; message_thread_id?: number } => {
  const [chat = "", topic] = channelId.split(":")
  return topic === undefined
    ? { chat_id: chat }
    : { chat_id: chat, message_thread_id: Number(topic) }
}
