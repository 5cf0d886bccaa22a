/** Parses the head of a request or a response, strictly: an ambiguous head is refused. */
import {
  HttpError,
  type Fields,
  type Header,
  isAll,
  NAME,
  readFields,
  TARGET,
  VALUE,
} from "./fields.ts"

/** How the end of the body is found. */
export type Framing =
  | { readonly kind: "none" }
  | { readonly kind: "length"; readonly length: number }
  | { readonly kind: "chunked" }
  | { readonly kind: "until-close" }

interface Head {
  readonly version: "1.0" | "1.1"
  readonly headers: readonly Header[]
  readonly framing: Framing
  /** The connection may carry another message after this one. */
  readonly keepAlive: boolean
  /** The value of `Upgrade`, if `Connection` contains `upgrade`. */
  readonly upgrade: string | undefined
}

export interface RequestHead extends Head {
  readonly method: string
  readonly target: string
  readonly host: string
}

export interface ResponseHead extends Head {
  readonly status: number
  readonly reason: string
}

export const HEAD_LIMIT = 32 * 1024
const TARGET_LIMIT = 16 * 1024

const METHOD_LIMIT = 32
const HOST = /^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/
const DIGITS = /^\d{1,15}$/
const THREE_DIGITS = /^\d{3}$/
const SPACE = 32

/** `text` is a whole head in latin1, without the empty line that ends it. */
export const parseRequestHead = (text: string): RequestHead => {
  const lineEnd = endOfFirstLine(text)
  const space = text.indexOf(" ")
  const targetEnd = lineEnd - " HTTP/1.1".length
  const isWellFormed =
    space > 0 &&
    space <= METHOD_LIMIT &&
    space < targetEnd &&
    isAll(text, 0, space, NAME) &&
    isAll(text, space + 1, targetEnd, TARGET) &&
    text.startsWith(" HTTP/", targetEnd)
  if (!isWellFormed) throw new HttpError(400, "the request line is malformed")
  const version = text.slice(lineEnd - 3, lineEnd)
  if (version !== "1.1" && version !== "1.0") throw new HttpError(505, "only HTTP/1.1 is supported")
  const method = text.slice(0, space)
  const target = text.slice(space + 1, targetEnd)
  if (target.length > TARGET_LIMIT) throw new HttpError(414, "the request target is too long")
  const fields = readFields(text, lineEnd)
  if (fields.lengthCount > 1) throw new HttpError(400, "there are two Content-Length headers")
  if (fields.hostCount > 1) throw new HttpError(400, "there are two Host headers")
  if (fields.hostCount === 0 && version === "1.1")
    throw new HttpError(400, "the Host header is missing")
  if (fields.hostCount === 1 && !HOST.test(fields.host))
    throw new HttpError(400, "the Host header is malformed")
  return {
    method,
    target,
    version,
    host: fields.host,
    headers: fields.headers,
    framing: requestFraming(fields, version),
    keepAlive: version === "1.1" && !fields.connection.includes("close"),
    upgrade: fields.connection.includes("upgrade") ? fields.upgrade : undefined,
  }
}

/** `method` is the request's: a response to HEAD has the headers of a body, but no body. */
export const parseResponseHead = (text: string, method: string): ResponseHead => {
  const lineEnd = endOfFirstLine(text)
  const version = text.slice(5, 8)
  const code = text.slice(9, 12)
  const isWellFormed =
    text.startsWith("HTTP/1.") &&
    (version === "1.1" || version === "1.0") &&
    text.charCodeAt(8) === SPACE &&
    THREE_DIGITS.test(code) &&
    (lineEnd === 12 || text.charCodeAt(12) === SPACE) &&
    isAll(text, 12, lineEnd, VALUE)
  if (!isWellFormed) throw new HttpError(502, "the status line is malformed")
  const reason = text.slice(13, lineEnd)
  const status = Number(code)
  const fields = readFields(text, lineEnd)
  const framing = responseFraming(fields, status, method)
  return {
    version: version === "1.1" ? "1.1" : "1.0",
    status,
    reason,
    headers: fields.headers,
    framing,
    keepAlive:
      framing.kind !== "until-close" &&
      (version === "1.1"
        ? !fields.connection.includes("close")
        : fields.connection.includes("keep-alive")),
    upgrade: fields.connection.includes("upgrade") ? fields.upgrade : undefined,
  }
}

const endOfFirstLine = (text: string): number => {
  const end = text.indexOf("\r\n")
  return end === -1 ? text.length : end
}

/** A proxy that removes one of these changes where the request ends or whom it is for. */
const NEVER_HOP = new Set(["content-length", "transfer-encoding", "host"])

const requestFraming = (fields: Fields, version: string): Framing => {
  if (fields.connection.some((option) => NEVER_HOP.has(option))) {
    throw new HttpError(400, "Connection must not name Content-Length, Transfer-Encoding or Host")
  }
  if (fields.transferEncoding !== undefined) {
    if (fields.lengthCount > 0)
      throw new HttpError(400, "there are both Content-Length and Transfer-Encoding")
    if (version !== "1.1" || fields.transferEncoding.toLowerCase() !== "chunked") {
      throw new HttpError(400, "Transfer-Encoding must be chunked")
    }
    return { kind: "chunked" }
  }
  if (fields.lengthCount === 0) return { kind: "none" }
  if (!DIGITS.test(fields.length)) throw new HttpError(400, "Content-Length is malformed")
  const length = Number(fields.length)
  return length === 0 ? { kind: "none" } : { kind: "length", length }
}

const responseFraming = (fields: Fields, status: number, method: string): Framing => {
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return { kind: "none" }
  if (fields.transferEncoding !== undefined) {
    if (fields.lengthCount > 0 || fields.transferEncoding.toLowerCase() !== "chunked") {
      throw new HttpError(502, "the length of the response is ambiguous")
    }
    return { kind: "chunked" }
  }
  if (fields.lengthCount === 0) return { kind: "until-close" }
  if (!DIGITS.test(fields.length)) throw new HttpError(502, "Content-Length is malformed")
  return { kind: "length", length: Number(fields.length) }
}
