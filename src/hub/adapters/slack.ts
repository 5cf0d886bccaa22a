/**
 * Slack: messages come in through the Events API, signed by Slack; text goes out with `chat.postMessage`, files with the
 * external upload. A thread is a channel of the session: `C123:1700000000.000100`. A direct message is `D123`.
 */
import { parseJson } from "../../lib/json.ts"
import { parseLimitedJson } from "../../wire/json-limits.ts"
import { z } from "zod"
import { readLimitedText } from "../../lib/read-limited.ts"
import { sameText } from "../../lib/constant-time.ts"
import {
  callService,
  type ChannelAdapter,
  downloadFile,
  MAX_REPLY_BYTES,
  type IncomingFile,
  type IncomingMessage,
  readCall,
  type Received,
  refused,
} from "./adapter.ts"
import { hmacOf } from "../../lib/hmac.ts"
import { SendError } from "../session/chat-services.ts"
import { fromSlack, toSlack } from "./slack-text.ts"

export interface SlackOptions {
  readonly signingSecret: string
  readonly botToken: string
  /** `https://slack.com/api` unless a test says otherwise. */
  readonly apiUrl?: string
  readonly now: () => number
}

/** An older call is a replay. Slack names five minutes. */
const MAX_AGE_SECONDS = 300
/** Slack cuts a text at 40,000 characters and recommends 4,000. Escaping may make a text longer. */
const TEXT_LENGTH = 4000

const slackFile = z.object({
  mimetype: z.string().optional(),
  name: z.string().nullish(),
  url_private: z.string().optional(),
})

const messageEvent = z.object({
  type: z.enum(["message", "app_mention"]),
  subtype: z.string().optional(),
  bot_id: z.string().optional(),
  user: z.string().optional(),
  text: z.string().optional(),
  channel: z.string(),
  channel_type: z.string().optional(),
  ts: z.string(),
  thread_ts: z.string().optional(),
  files: z.array(slackFile).optional(),
})

const envelope = z.union([
  z.object({ type: z.literal("url_verification"), challenge: z.string() }),
  z.object({ type: z.literal("event_callback"), event: z.unknown() }),
])

const apiReply = z.object({ ok: z.boolean(), error: z.string().optional() })

export const createSlackAdapter = (options: SlackOptions): ChannelAdapter => {
  const { botToken, apiUrl = "https://slack.com/api", now } = options
  const authorization = { authorization: `Bearer ${botToken}` }

  /** Slack answers 200 for most failures; `ok` tells. */
  const call = async <Schema extends z.ZodType>(
    method: string,
    body: { readonly json: object } | { readonly form: Readonly<Record<string, string>> },
    schema: Schema,
  ): Promise<z.output<Schema>> => {
    const what = `Slack ${method}`
    const response = await callService(what, `${apiUrl}/${method}`, {
      method: "POST",
      headers: {
        ...authorization,
        ...("json" in body && { "content-type": "application/json; charset=utf-8" }),
      },
      body: "json" in body ? JSON.stringify(body.json) : new URLSearchParams(body.form),
    })
    const unreadable = () =>
      new SendError(`${what}: unreadable response`, { retryable: true, mayHaveArrived: true })
    const data = parseJson(
      (await readLimitedText(response, MAX_REPLY_BYTES).catch(() => undefined)) ?? "",
    )
    const reply = apiReply.safeParse(data)
    if (!reply.success) throw unreadable()
    if (!reply.data.ok) {
      const error = reply.data.error ?? "unknown_error"
      throw new SendError(`${what}: ${error}`, {
        retryable: TEMPORARY.has(error),
        mayHaveArrived: HALF_DONE.has(error),
      })
    }
    const parsed = schema.safeParse(data)
    if (parsed.success) return parsed.data
    throw unreadable()
  }
  /** For the steps before a message is posted: repeating them posts nothing twice. */
  const callBefore: typeof call = async (method, body, schema) => {
    try {
      return await call(method, body, schema)
    } catch (error) {
      throw error instanceof SendError ? beforePosting(error) : error
    }
  }

  const fileOf = ({ mimetype, name, url_private }: z.output<typeof slackFile>): IncomingFile[] =>
    url_private === undefined || !mayGetToken(url_private, apiUrl)
      ? []
      : [
          {
            mime: mimetype ?? "application/octet-stream",
            name: name ?? "file",
            load: () => downloadFile("Slack file", url_private, authorization),
          },
        ]

  const messagesOf = (event: unknown): IncomingMessage[] => {
    const parsed = messageEvent.safeParse(event)
    if (!parsed.success) return []
    const { subtype, bot_id, user, text = "", channel, channel_type, ts, thread_ts } = parsed.data
    // Edits, joins and the app's own messages are not prompts.
    if (user === undefined || bot_id !== undefined) return []
    if (subtype !== undefined && subtype !== "file_share") return []
    const files = (parsed.data.files ?? []).flatMap(fileOf)
    const content = fromSlack(text)
    if (content === "" && files.length === 0) return []
    const isDirect = channel_type === "im" && thread_ts === undefined
    return [
      {
        // A mention in a channel comes twice, as `message` and as `app_mention`: both have this id.
        id: `slack-${channel}-${ts}`,
        channelId: isDirect ? channel : `${channel}:${thread_ts ?? ts}`,
        text: content,
        author: { id: user, name: user },
        files,
      },
    ]
  }

  return {
    type: "slack",
    maxTextLength: TEXT_LENGTH,
    receive: async (request): Promise<Received> => {
      const body = await readCall(request)
      if (typeof body !== "string") return body
      if (!(await isSigned(options.signingSecret, request.headers, body, now())))
        return refused(401, "the request is not signed by Slack")
      const parsed = envelope.safeParse(parseLimitedJson(body))
      if (!parsed.success) return refused(400, "expected an event of Slack's Events API")
      if (parsed.data.type === "url_verification")
        return { response: Response.json({ challenge: parsed.data.challenge }), messages: [] }
      return { response: Response.json({ ok: true }), messages: messagesOf(parsed.data.event) }
    },
    send: async (channelId, text, id) => {
      const metadata = { event_type: SENT_EVENT, event_payload: { id } }
      await call(
        "chat.postMessage",
        { json: { ...placeOf(channelId), text: toSlack(text), metadata } },
        apiReply,
      )
    },
    // Slack has no idempotency key, but shows the metadata of a message to the app that posted it.
    wasSent: async (channelId, id) => {
      const { channel, thread_ts: thread } = placeOf(channelId)
      const form = {
        channel,
        limit: "100",
        include_all_metadata: "true",
        oldest: String(Math.floor(now() / 1000) - LOOK_BACK_SECONDS),
        ...(thread !== undefined && { ts: thread }),
      }
      const method = thread === undefined ? "conversations.history" : "conversations.replies"
      try {
        const { messages } = await callBefore(method, { form }, history)
        return messages.some(({ metadata }) => metadata?.event_payload?.["id"] === id)
      } catch (error) {
        // An app without the right to read the conversation cannot tell.
        if (error instanceof SendError && !error.retryable) return "unknown"
        throw error
      }
    },
    attach: async (channelId, { name, mime, bytes, caption }) => {
      const { upload_url, file_id } = await callBefore(
        "files.getUploadURLExternal",
        { form: { filename: name, length: String(bytes.length) } },
        z.object({ upload_url: z.url(), file_id: z.string() }),
      )
      await callService("Slack upload", upload_url, {
        method: "POST",
        headers: { "content-type": mime },
        body: bytes,
      }).catch((error: unknown) => {
        throw error instanceof SendError ? beforePosting(error) : error
      })
      const { channel, thread_ts } = placeOf(channelId)
      await call(
        "files.completeUploadExternal",
        {
          json: {
            files: [{ id: file_id, title: name }],
            channel_id: channel,
            ...(thread_ts !== undefined && { thread_ts }),
            ...(caption !== "" && { initial_comment: toSlack(caption) }),
          },
        },
        apiReply,
      )
    },
  }
}

const TEMPORARY = new Set([
  "ratelimited",
  "rate_limited",
  "internal_error",
  "fatal_error",
  "service_unavailable",
  "request_timeout",
])

/** Slack says of these that a part of the work may have been done. */
const HALF_DONE = new Set(["fatal_error", "internal_error", "request_timeout"])

/** Marks the messages of this app. */
const SENT_EVENT = "sandpiper_reply"
/** Older than the last attempt of any message. */
const LOOK_BACK_SECONDS = 12 * 60 * 60

const history = z.object({
  messages: z.array(
    z.object({
      metadata: z
        .object({ event_payload: z.record(z.string(), z.unknown()).optional() })
        .optional(),
    }),
  ),
})

const beforePosting = ({ message, retryable, retryAfterMs }: SendError): SendError =>
  new SendError(message, { retryable, retryAfterMs })

const placeOf = (channelId: string): { channel: string; thread_ts?: string } => {
  const [channel = "", thread] = channelId.split(":")
  return thread === undefined ? { channel } : { channel, thread_ts: thread }
}

/** The token opens every file of the workspace, so it is sent to Slack's own hosts only. */
const mayGetToken = (url: string, apiUrl: string): boolean => {
  if (!URL.canParse(url)) return false
  const { protocol, hostname, origin } = new URL(url)
  return (
    origin === new URL(apiUrl).origin ||
    (protocol === "https:" && (hostname === "slack.com" || hostname.endsWith(".slack.com")))
  )
}

const isSigned = async (
  secret: string,
  headers: Headers,
  body: string,
  now: number,
): Promise<boolean> => {
  const timestamp = headers.get("x-slack-request-timestamp") ?? ""
  if (!/^\d{1,12}$/.test(timestamp)) return false
  if (Math.abs(now / 1000 - Number(timestamp)) > MAX_AGE_SECONDS) return false
  const expected = `v0=${await hmacOf(secret, `v0:${timestamp}:${body}`)}`
  return sameText(headers.get("x-slack-signature") ?? "", expected)
}
