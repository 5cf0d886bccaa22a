/**
 * A local Telegram Bot API: `getMe`, `sendMessage`, `sendPhoto`, `sendDocument`, `getFile` and file downloads, with the
 * real response shapes and limits. `fail` makes the next calls fail.
 */

export interface TelegramPost {
  readonly chat: string
  readonly topic: string | undefined
  readonly text: string
  readonly file?: {
    readonly kind: "photo" | "document"
    readonly name: string
    readonly bytes: Uint8Array
  }
}

export interface TelegramApi {
  readonly url: string
  readonly posts: TelegramPost[]
  readonly calls: string[]
  readonly fail: (code: number, options?: { retryAfter?: number; times?: number }) => void
  /** The next message is sent to its chat, then `did` is called, and no answer is sent. */
  readonly loseAnswer: (did: () => void) => void
  readonly addFile: (id: string, bytes: Uint8Array<ArrayBuffer>) => void
  /** A webhook call with the secret token. */
  readonly update: (to: string, message: object, secret?: string) => Request
  readonly stop: () => Promise<void>
}

export const TELEGRAM_TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
export const TELEGRAM_SECRET = "webhook-secret-token"

export const startTelegramApi = (): TelegramApi => {
  const posts: TelegramPost[] = []
  const calls: string[] = []
  const files = new Map<string, Uint8Array<ArrayBuffer>>()
  const failures: { code: number; retryAfter?: number }[] = []
  let updates = 0
  let onLost: (() => void) | undefined

  const refuse = (code: number, description: string, retryAfter?: number) =>
    Response.json(
      {
        ok: false,
        error_code: code,
        description,
        ...(retryAfter !== undefined && { parameters: { retry_after: retryAfter } }),
      },
      { status: code },
    )

  const method = async (name: string, request: Request): Promise<Response> => {
    calls.push(name)
    const failure = failures.shift()
    if (failure) return refuse(failure.code, `failure ${failure.code}`, failure.retryAfter)
    const fields = await fieldsOf(request)
    const field = (key: string) => {
      const value = fields[key]
      return typeof value === "string" || typeof value === "number" ? String(value) : undefined
    }
    const chat = field("chat_id") ?? ""
    const place = { chat, topic: field("message_thread_id") }
    const sent = () =>
      Response.json({
        ok: true,
        result: { message_id: posts.length, date: 0, chat: { id: Number(chat), type: "private" } },
      })
    if (name === "getMe")
      return Response.json({
        ok: true,
        result: { id: 110201543, is_bot: true, first_name: "Piper", username: "piper_bot" },
      })
    if (name === "getFile") {
      const id = field("file_id") ?? ""
      return files.has(id)
        ? Response.json({ ok: true, result: { file_id: id, file_path: `documents/${id}` } })
        : refuse(400, "Bad Request: invalid file_id")
    }
    if (!/^-?\d+$/.test(chat)) return refuse(400, "Bad Request: chat not found")
    if (name === "sendMessage") {
      const text = field("text") ?? ""
      if (text === "") return refuse(400, "Bad Request: message text is empty")
      if (text.length > 4096) return refuse(400, "Bad Request: message is too long")
      posts.push({ ...place, text })
      if (!onLost) return sent()
      onLost()
      onLost = undefined
      return new Promise(() => {})
    }
    const kind = name === "sendPhoto" ? "photo" : name === "sendDocument" ? "document" : undefined
    if (kind === undefined) return refuse(404, "Not Found")
    const given = fields[kind]
    // A field may name another field of the form that has the file.
    const file =
      typeof given === "string" && given.startsWith("attach://")
        ? fields[given.slice("attach://".length)]
        : given
    if (!(file instanceof File))
      return refuse(400, `Bad Request: there is no ${kind} in the request`)
    const caption = field("caption") ?? ""
    if (caption.length > 1024) return refuse(400, "Bad Request: message caption is too long")
    const bytes = new Uint8Array(await file.arrayBuffer())
    posts.push({ ...place, text: caption, file: { kind, name: file.name, bytes } })
    return sent()
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      const api = `/bot${TELEGRAM_TOKEN}/`
      const download = `/file/bot${TELEGRAM_TOKEN}/documents/`
      if (pathname.startsWith(api)) return method(pathname.slice(api.length), request)
      const bytes = pathname.startsWith(download) && files.get(pathname.slice(download.length))
      return bytes ? new Response(bytes) : refuse(401, "Unauthorized")
    },
  })
  return {
    url: server.url.origin,
    posts,
    calls,
    fail: (code, { retryAfter, times = 1 } = {}) =>
      failures.push(
        ...Array.from({ length: times }, () => ({
          code,
          ...(retryAfter !== undefined && { retryAfter }),
        })),
      ),
    loseAnswer: (did) => {
      onLost = did
    },
    addFile: (id, bytes) => void files.set(id, bytes),
    update: (to, message, secret = TELEGRAM_SECRET) =>
      new Request(to, {
        method: "POST",
        body: JSON.stringify({ update_id: (updates += 1), message }),
        headers: {
          "content-type": "application/json",
          "x-telegram-bot-api-secret-token": secret,
        },
      }),
    stop: () => server.stop(true),
  }
}

const fieldsOf = async (request: Request): Promise<Record<string, unknown>> => {
  const type = request.headers.get("content-type") ?? ""
  if (type.startsWith("application/json")) return (await request.json()) as Record<string, unknown>
  if (type.startsWith("multipart/form-data"))
    return Object.fromEntries((await request.formData()).entries())
  return {}
}
