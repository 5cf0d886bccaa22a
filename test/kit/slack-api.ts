/**
 * A local Slack: `auth.test`, `chat.postMessage`, the external file upload and private files, with Slack's response shapes.
 * Also signs Events API calls as Slack does. `fail` makes the next call fail in a given way.
 */
import { createHmac } from "node:crypto"

export interface SlackPost {
  readonly channel: string
  readonly thread: string | undefined
  readonly text: string
}

export interface SlackUpload extends SlackPost {
  readonly title: string
  readonly mime: string
  readonly bytes: Uint8Array
}

type Failure =
  | { readonly error: string }
  | { readonly status: number; readonly retryAfter?: number }

export interface SlackApi {
  readonly apiUrl: string
  readonly posts: SlackPost[]
  readonly uploads: SlackUpload[]
  readonly calls: string[]
  /** The next API call fails; with a channel, the next one that names it. */
  readonly fail: (failure: Failure, channel?: string) => void
  /** The next message is posted, then `did` is called, and no answer is sent. */
  readonly loseAnswer: (did: () => void) => void
  /** A file that only the bot's token can read; the result is its `url_private`. */
  readonly addFile: (name: string, bytes: Uint8Array<ArrayBuffer>) => string
  /** An Events API request, signed now unless `at` (seconds) says otherwise. */
  readonly event: (to: string, body: unknown, options?: { at?: number; secret?: string }) => Request
  readonly stop: () => Promise<void>
}

export const SLACK_TOKEN = "xoxb-test-token-of-the-bot"
export const SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"

export const startSlackApi = (): SlackApi => {
  const posts: SlackPost[] = []
  const uploads: SlackUpload[] = []
  const calls: string[] = []
  const files = new Map<string, Uint8Array<ArrayBuffer>>()
  const pending = new Map<string, { name: string; mime: string; bytes: Uint8Array }>()
  const failures: { readonly failure: Failure; readonly channel: string | undefined }[] = []
  /** Where each post is, and the metadata that Slack shows to the app that posted it. */
  const metadata: { channel: string; thread: string | undefined; metadata: unknown }[] = []
  let onLost: (() => void) | undefined

  const method = async (name: string, request: Request): Promise<Response> => {
    calls.push(name)
    const fields = await fieldsOf(request)
    const planned = failures.findIndex(
      ({ channel }) => channel === undefined || channel === fields["channel"],
    )
    const failure = planned === -1 ? undefined : failures.splice(planned, 1)[0]?.failure
    if (failure && "status" in failure)
      return new Response("", {
        status: failure.status,
        headers: failure.retryAfter === undefined ? {} : { "retry-after": `${failure.retryAfter}` },
      })
    if (failure) return Response.json({ ok: false, error: failure.error })
    if (request.headers.get("authorization") !== `Bearer ${SLACK_TOKEN}`)
      return Response.json({ ok: false, error: "invalid_auth" })
    const field = (key: string) => {
      const value = fields[key]
      return typeof value === "string" || typeof value === "number" ? String(value) : undefined
    }
    switch (name) {
      case "auth.test":
        return Response.json({ ok: true, user_id: "UBOT", team_id: "T1" })
      case "chat.postMessage": {
        const channel = field("channel") ?? ""
        if (!/^[CDG][A-Z0-9]+$/.test(channel))
          return Response.json({ ok: false, error: "channel_not_found" })
        const text = field("text") ?? ""
        if (text === "") return Response.json({ ok: false, error: "no_text" })
        posts.push({ channel, thread: field("thread_ts"), text })
        metadata.push({ channel, thread: field("thread_ts"), metadata: fields["metadata"] })
        if (onLost) {
          onLost()
          onLost = undefined
          return new Promise(() => {})
        }
        const ts = `17000000${posts.length}.000100`
        return Response.json({ ok: true, channel, ts, message: { text, ts } })
      }
      case "conversations.replies":
      case "conversations.history":
        return Response.json({
          ok: true,
          messages: metadata
            .filter((one) => one.channel === field("channel") && one.thread === field("ts"))
            .map((one, index) => ({
              type: "message",
              bot_id: "B1",
              ts: `17000000${index + 1}.000100`,
              ...(field("include_all_metadata") === "true" && { metadata: one.metadata }),
            })),
        })
      case "files.getUploadURLExternal": {
        const id = `F${pending.size + 1}`
        pending.set(id, { name: field("filename") ?? "", mime: "", bytes: new Uint8Array() })
        return Response.json({ ok: true, file_id: id, upload_url: `${origin}/upload/${id}` })
      }
      case "files.completeUploadExternal": {
        const listed = fields["files"]
        const [first] = (typeof listed === "string" ? JSON.parse(listed) : listed) as {
          id: string
          title: string
        }[]
        const file = pending.get(first?.id ?? "")
        if (!first || !file || file.bytes.length === 0)
          return Response.json({ ok: false, error: "file_not_found" })
        uploads.push({
          channel: field("channel_id") ?? "",
          thread: field("thread_ts"),
          text: field("initial_comment") ?? "",
          title: first.title,
          mime: file.mime,
          bytes: file.bytes,
        })
        return Response.json({ ok: true, files: [{ id: first.id, title: first.title }] })
      }
      default:
        return Response.json({ ok: false, error: "unknown_method" })
    }
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const [first, name = ""] = new URL(request.url).pathname.split("/").slice(1)
      if (first === "api") return method(name, request)
      if (first === "upload") {
        const file = pending.get(name)
        if (!file) return new Response("", { status: 404 })
        const body = await uploadedFile(request)
        file.mime = body.type
        file.bytes = await body.bytes()
        return new Response("OK")
      }
      const bytes = files.get(name)
      const allowed = request.headers.get("authorization") === `Bearer ${SLACK_TOKEN}`
      return bytes && allowed ? new Response(bytes) : new Response("", { status: 403 })
    },
  })
  const origin = server.url.origin
  return {
    apiUrl: `${origin}/api`,
    posts,
    uploads,
    calls,
    fail: (failure, channel) => void failures.push({ failure, channel }),
    loseAnswer: (did) => {
      onLost = did
    },
    addFile: (name, bytes) => {
      files.set(name, bytes)
      return `${origin}/files/${name}`
    },
    event: (to, body, { at = Math.floor(Date.now() / 1000), secret = SLACK_SECRET } = {}) => {
      const text = JSON.stringify(body)
      const mac = createHmac("sha256", secret).update(`v0:${at}:${text}`).digest("hex")
      return new Request(to, {
        method: "POST",
        body: text,
        headers: {
          "content-type": "application/json",
          "x-slack-request-timestamp": String(at),
          "x-slack-signature": `v0=${mac}`,
        },
      })
    },
    stop: () => server.stop(true),
  }
}

/** Slack takes the bytes as the body, or as the file of a form. */
const uploadedFile = async (request: Request): Promise<Blob> => {
  const type = request.headers.get("content-type") ?? ""
  if (!type.startsWith("multipart/form-data"))
    return new Blob([await request.arrayBuffer()], { type })
  const form = await request.formData()
  for (const value of form.values()) if (value instanceof Blob) return value
  return new Blob()
}

const fieldsOf = async (request: Request): Promise<Record<string, unknown>> => {
  const type = request.headers.get("content-type") ?? ""
  if (type.startsWith("application/json")) return (await request.json()) as Record<string, unknown>
  if (request.method === "GET") return Object.fromEntries(new URL(request.url).searchParams)
  return Object.fromEntries(new URLSearchParams(await request.text()))
}
