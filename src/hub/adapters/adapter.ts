/** The contract between the hub and a chat service: read what people write there, send text and files back. */
import { readLimited, readRequestText } from "../../lib/read-limited.ts"
import { SendError } from "../session/chat-services.ts"

export interface IncomingFile {
  readonly mime: string
  readonly name: string
  /** Downloads the file. Rejects when it is too large or the service refuses. */
  readonly load: () => Promise<Uint8Array<ArrayBuffer>>
}

export interface IncomingMessage {
  /** The same for every delivery of one message: the hub uses it as the id of the prompt. */
  readonly id: string
  /** The conversation that the message belongs to; a reply goes to the same id. */
  readonly channelId: string
  readonly text: string
  readonly author: { readonly id: string; readonly name: string }
  readonly files: readonly IncomingFile[]
}

export interface Received {
  /** What the service is answered with, once the messages are stored. */
  readonly response: Response
  readonly messages: readonly IncomingMessage[]
}

export interface OutgoingFile {
  readonly name: string
  readonly mime: string
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly caption: string
}

export interface ChannelAdapter {
  /** The `channelType` of its channels. */
  readonly type: "slack" | "telegram"
  /** The longest text of one message, in UTF-16 units. */
  readonly maxTextLength: number
  /** Checks the sender of a webhook call and reads its messages. */
  readonly receive: (request: Request) => Promise<Received>
  /** Sends one message. Rejects with a `SendError`. */
  readonly send: (channelId: string, text: string, id: string) => Promise<void>
  /** Looks for a message of this id that was sent before; absent if the service cannot tell. Rejects with a `SendError`. */
  readonly wasSent?: (channelId: string, id: string) => Promise<boolean | "unknown">
  readonly attach: (channelId: string, file: OutgoingFile) => Promise<void>
}

const MAX_FILE_BYTES = 10 * 1024 * 1024
const MAX_BODY_BYTES = 1024 * 1024
/** Of an answer of the service. */
export const MAX_REPLY_BYTES = 4 * 1024 * 1024
const CALL_MS = 15_000

export const refused = (status: 400 | 401 | 408 | 413, message: string): Received => ({
  response: Response.json({ ok: false, error: { code: `http-${status}`, message } }, { status }),
  messages: [],
})

/** The text of a webhook call, or what refuses it. */
export const readCall = async (request: Request): Promise<string | Received> => {
  const text = await readRequestText(request, MAX_BODY_BYTES)
  if (text === 413) return refused(413, "the body is too large")
  if (text === 408) return refused(408, "the body did not come to its end in time")
  return text
}

/** Errors of a connection that was never made: the service has seen nothing. */
const NEVER_SENT = /ConnectionRefused|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|FailedToOpenSocket/

/** Whether a failed `fetch` may have reached the service. */
export const mayHaveArrived = (error: unknown): boolean =>
  !(error instanceof Error && "code" in error && NEVER_SENT.test(String(error.code)))

/** One HTTP call to the service. `what` names it in errors: an address may hold a token and is never shown. */
export const callService = async (
  what: string,
  url: string,
  init: RequestInit,
): Promise<Response> => {
  let response: Response
  try {
    response = await fetch(url, {
      ...init,
      redirect: "manual",
      signal: AbortSignal.timeout(CALL_MS),
    })
  } catch (error) {
    const why = error instanceof Error && error.name === "TimeoutError" ? "timed out" : "failed"
    throw new SendError(`${what}: the request ${why}`, {
      retryable: true,
      mayHaveArrived: mayHaveArrived(error),
    })
  }
  if (response.ok) return response
  const retryAfter = Number(response.headers.get("retry-after"))
  throw new SendError(`${what}: HTTP ${response.status}`, {
    retryable: response.status === 429 || response.status >= 500,
    retryAfterMs: retryAfter > 0 ? retryAfter * 1000 : undefined,
  })
}

export const downloadFile = async (
  what: string,
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Uint8Array<ArrayBuffer>> => {
  const response = await callService(what, url, { headers: { ...headers } })
  const bytes = await readLimited(response, MAX_FILE_BYTES)
  if (bytes) return bytes
  throw new SendError(`${what}: the file is larger than ${MAX_FILE_BYTES} bytes`, {
    retryable: false,
  })
}
