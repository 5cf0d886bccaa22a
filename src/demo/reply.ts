/** The vocabulary of a scripted reply: what a model says and calls, and how it fails, as plain data. */
import { STATUS_CODES } from "node:http"

export interface ToolCall {
  readonly name: string
  /** An object is sent as JSON; a string is sent as it is, so that a script can send broken JSON. */
  readonly args: Readonly<Record<string, unknown>> | string
}

export interface Usage {
  readonly input: number
  readonly output: number
  readonly cached?: number
  readonly reasoning?: number
}

interface Speech {
  readonly type: "text" | "reasoning"
  readonly text: string
  readonly chunks: number
  /** Waited before each chunk. */
  readonly delayMs: number
}

/** Ends the stream in another way than by finishing; what a script lists after it is never sent. */
export type AbnormalEnd =
  /** The connection is reset; as the first step, before any header. */
  | { readonly type: "cut" }
  /** The stream ends cleanly, but without a finish reason. */
  | { readonly type: "eof" }
  /** Nothing more is sent, for as long as the client waits; as the first step, not even headers. */
  | { readonly type: "hang" }
  /** An error object takes the place of the next chunk. */
  | { readonly type: "error"; readonly error: Readonly<Record<string, unknown>> }

type Step =
  | Speech
  | { readonly type: "tools"; readonly calls: readonly ToolCall[] }
  | { readonly type: "finish"; readonly reason: string }
  | { readonly type: "usage"; readonly usage: Usage }
  | AbnormalEnd

/** An answer that begins as a stream of chunks, however it ends. */
export type StreamedReply = readonly Step[]

/** An answer that is an HTTP status and nothing else. */
export interface ErrorReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

export type Reply = StreamedReply | ErrorReply

export const reply = (...parts: readonly StreamedReply[]): StreamedReply => parts.flat()

interface Pace {
  readonly chunks?: number
  readonly delayMs?: number
}

export const text = (words: string, { chunks = 1, delayMs = 0 }: Pace = {}): StreamedReply => [
  { type: "text", text: words, chunks, delayMs },
]

export const reasoning = (words: string, { chunks = 1, delayMs = 0 }: Pace = {}): StreamedReply => [
  { type: "reasoning", text: words, chunks, delayMs },
]

/** Several calls in parallel. */
export const tools = (calls: readonly ToolCall[]): StreamedReply => [{ type: "tools", calls }]

export const tool = (name: string, args: ToolCall["args"]): StreamedReply => tools([{ name, args }])

/** Instead of the default, which is `tool_calls` after a tool call and `stop` otherwise. */
export const finish = (reason: string): StreamedReply => [{ type: "finish", reason }]

/** Instead of the default, which is an estimate from the number of characters. */
export const usage = (tokens: Usage): StreamedReply => [{ type: "usage", usage: tokens }]

export const cut = (afterChunks = 0): StreamedReply => [...filler(afterChunks), { type: "cut" }]

export const eof = (afterChunks = 0): StreamedReply => [...filler(afterChunks), { type: "eof" }]

export const hang = (afterChunks = 0): StreamedReply => [...filler(afterChunks), { type: "hang" }]

export const streamError = (
  message: string,
  fields: Readonly<Record<string, unknown>> = {},
): StreamedReply => [{ type: "error", error: { message, ...fields } }]

interface ErrorFields {
  readonly message?: string
  readonly type?: string
  readonly code?: string
  readonly retryAfterSeconds?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent instead of an error object in OpenAI's form. */
  readonly body?: unknown
}

export function httpError(status: number, fields: ErrorFields = {}): ErrorReply {
  const { message = STATUS_CODES[status] ?? "Error", retryAfterSeconds, headers } = fields
  const { type = status < 500 ? "invalid_request_error" : "server_error", code = null } = fields
  return {
    status,
    headers: {
      ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
      ...headers,
    },
    body: fields.body ?? { error: { message, type, param: null, code } },
  }
}

/** OpenAI's own refusal of a conversation that is too long; OpenCode recognises both wording and code. */
export const overflow = (): ErrorReply =>
  httpError(400, {
    message:
      "This model's maximum context length is 128000 tokens. However, your messages resulted in " +
      "131072 tokens. Please reduce the length of the messages.",
    code: "context_length_exceeded",
  })

const filler = (chunks: number): StreamedReply =>
  chunks === 0 ? [] : text("word ".repeat(chunks), { chunks })
