/** Scripted replies as plain data: text, reasoning, tool calls and failures. */
import { STATUS_CODES } from "node:http"

export interface ToolCall {
  readonly name: string
  /** An object is sent as JSON; a string is sent unchanged, so that a script can send broken JSON. */
  readonly args: Readonly<Record<string, unknown>> | string
}

export interface Usage {
  readonly input: number
  readonly output: number
  readonly cached?: number
  readonly reasoning?: number
}

interface TextStep {
  readonly type: "text" | "reasoning"
  readonly text: string
  readonly chunks: number
  /** The delay before each chunk. */
  readonly delayMs: number
}

/** Ends the stream without a finish reason; the steps after it are never sent. */
export type AbnormalEnd =
  /** Resets the connection; as the first step before any header is sent. */
  | { readonly type: "cut" }
  /** Closes the stream cleanly. */
  | { readonly type: "eof" }
  /** Sends nothing more and keeps the connection open; as the first step not even headers are sent. */
  | { readonly type: "hang" }
  /** Sends an error object instead of the next chunk. */
  | { readonly type: "error"; readonly error: Readonly<Record<string, unknown>> }

type Step =
  | TextStep
  | { readonly type: "tools"; readonly calls: readonly ToolCall[] }
  | { readonly type: "finish"; readonly reason: string }
  | { readonly type: "usage"; readonly usage: Usage }
  /** Delays the next chunk until the promise settles. */
  | { readonly type: "wait"; readonly until: Promise<unknown> }
  | AbnormalEnd

/** A reply that starts as a stream of chunks. */
export type StreamedReply = readonly Step[]

/** A reply that is an HTTP error. */
export interface ErrorReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

export type Reply = StreamedReply | ErrorReply

export const reply = (...parts: readonly StreamedReply[]): StreamedReply => parts.flat()

interface StreamOptions {
  readonly chunks?: number
  readonly delayMs?: number
}

export const text = (
  content: string,
  { chunks = 1, delayMs = 0 }: StreamOptions = {},
): StreamedReply => [{ type: "text", text: content, chunks, delayMs }]

export const reasoning = (
  content: string,
  { chunks = 1, delayMs = 0 }: StreamOptions = {},
): StreamedReply => [{ type: "reasoning", text: content, chunks, delayMs }]

/** Parallel calls. */
export const tools = (calls: readonly ToolCall[]): StreamedReply => [{ type: "tools", calls }]

export const tool = (name: string, args: ToolCall["args"]): StreamedReply => tools([{ name, args }])

/** Overrides the default: `tool_calls` after a tool call, else `stop`. */
export const finish = (reason: string): StreamedReply => [{ type: "finish", reason }]

/** Overrides the default: an estimate from the number of characters. */
export const usage = (tokens: Usage): StreamedReply => [{ type: "usage", usage: tokens }]

/** The next chunk is sent when the promise settles, however long that takes. */
export const waitFor = (until: Promise<unknown>): StreamedReply => [{ type: "wait", until }]

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
  /** Replaces the error object in OpenAI's format. */
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

/** OpenAI's error for a conversation that is too long; OpenCode recognises its message and its code. */
export const overflow = (): ErrorReply =>
  httpError(400, {
    message:
      "This model's maximum context length is 128000 tokens. However, your messages resulted in " +
      "131072 tokens. Please reduce the length of the messages.",
    code: "context_length_exceeded",
  })

const filler = (chunks: number): StreamedReply =>
  chunks === 0 ? [] : text("word ".repeat(chunks), { chunks })
