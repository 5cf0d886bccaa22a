/** Reads the head of a request or a response, strictly: what two parsers could read in two ways is refused, never guessed. */

export interface Header {
  readonly name: string
  /** The name in lower case: what is compared. */
  readonly key: string
  readonly value: string
}

/** How the end of a body is known. */
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
  /** What `Upgrade` asks for, when `Connection` says that it counts. */
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

/** Bytes that are not HTTP as this gateway speaks it; `status` is the answer they get. */
export class BadHead extends Error {
  override readonly name = "BadHead"
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export const HEAD_LIMIT = 32 * 1024
export const TARGET_LIMIT = 16 * 1024
const HEADER_LIMIT = 128

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** Control characters, of which only the tab may stand in a value. */
const CONTROL = /[\0-\x08\n-\x1f\x7f]/
const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([\x21-\x7e]+) HTTP\/(\d\.\d)$/
const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: (.*))?$/
const HOST = /^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/
const DIGITS = /^\d{1,15}$/

/** `text` is a whole head in latin1, without the empty line that ends it. */
export const parseRequestHead = (text: string): RequestHead => {
  const lineEnd = endOfFirstLine(text)
  const [, method, target, version] = REQUEST_LINE.exec(text.slice(0, lineEnd)) ?? []
  if (method === undefined || target === undefined) {
    throw new BadHead(400, "the request line is malformed")
  }
  if (version !== "1.1" && version !== "1.0") throw new BadHead(505, "only HTTP/1.1 is spoken")
  if (target.length > TARGET_LIMIT) throw new BadHead(414, "the address is too long")
  const fields = readFields(text, lineEnd)
  if (fields.lengthCount > 1) throw new BadHead(400, "Content-Length is there twice")
  if (fields.hostCount > 1) throw new BadHead(400, "Host is there twice")
  if (fields.hostCount === 0 && version === "1.1") throw new BadHead(400, "Host is missing")
  if (fields.hostCount === 1 && !HOST.test(fields.host)) throw new BadHead(400, "bad Host")
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

/** `method` is that of the request it answers: a HEAD has the headers of a body, and none. */
export const parseResponseHead = (text: string, method: string): ResponseHead => {
  const lineEnd = endOfFirstLine(text)
  const [, minor, code, reason = ""] = STATUS_LINE.exec(text.slice(0, lineEnd)) ?? []
  if (code === undefined || CONTROL.test(reason)) throw new BadHead(502, "bad status line")
  const version = minor === "1" ? "1.1" : "1.0"
  const status = Number(code)
  const fields = readFields(text, lineEnd)
  const framing = responseFraming(fields, status, method)
  return {
    version,
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

/** The fields that decide how a message is read, found in one pass over the head. */
interface Fields {
  readonly headers: Header[]
  host: string
  hostCount: number
  length: string
  lengthCount: number
  transferEncoding: string | undefined
  /** The words of every `Connection` header, in lower case. */
  connection: string[]
  upgrade: string | undefined
  authorizations: number
}

const readFields = (text: string, lineEnd: number): Fields => {
  const fields: Fields = {
    headers: [],
    host: "",
    hostCount: 0,
    length: "",
    lengthCount: 0,
    transferEncoding: undefined,
    connection: [],
    upgrade: undefined,
    authorizations: 0,
  }
  let at = lineEnd + 2
  while (at < text.length) {
    let end = text.indexOf("\r\n", at)
    if (end === -1) end = text.length
    const colon = text.indexOf(":", at)
    if (colon === -1 || colon >= end) throw new BadHead(400, "a header has no colon")
    const name = text.slice(at, colon)
    if (!TOKEN.test(name)) throw new BadHead(400, "a header's name is malformed")
    const value = text.slice(colon + 1, end).trim()
    if (CONTROL.test(value)) throw new BadHead(400, "a header's value is malformed")
    const key = name.toLowerCase()
    if (fields.headers.push({ name, key, value }) > HEADER_LIMIT) {
      throw new BadHead(431, "there are too many headers")
    }
    note(fields, key, value)
    at = end + 2
  }
  return fields
}

const note = (fields: Fields, key: string, value: string): void => {
  switch (key) {
    case "host":
      fields.host = value
      fields.hostCount += 1
      return
    case "content-length":
      // The same length said twice is harmless in an answer and refused in a request.
      if (fields.lengthCount > 0 && fields.length !== value) throw new BadHead(400, "two lengths")
      fields.length = value
      fields.lengthCount += 1
      return
    case "transfer-encoding":
      fields.transferEncoding =
        fields.transferEncoding === undefined ? value : `${fields.transferEncoding},${value}`
      return
    case "connection":
      for (const word of value.split(",")) fields.connection.push(word.trim().toLowerCase())
      return
    case "upgrade":
      fields.upgrade = value.toLowerCase()
      return
    case "authorization":
      fields.authorizations += 1
      if (fields.authorizations > 1) throw new BadHead(400, "Authorization is there twice")
      return
  }
}

const requestFraming = (fields: Fields, version: string): Framing => {
  if (fields.connection.some((word) => word === "content-length" || word === "host")) {
    throw new BadHead(400, "Connection names a header that is needed")
  }
  if (fields.transferEncoding !== undefined) {
    if (fields.lengthCount > 0) throw new BadHead(400, "both a length and chunks")
    if (version !== "1.1" || fields.transferEncoding.toLowerCase() !== "chunked") {
      throw new BadHead(400, "Transfer-Encoding can only be chunked")
    }
    return { kind: "chunked" }
  }
  if (fields.lengthCount === 0) return { kind: "none" }
  if (!DIGITS.test(fields.length)) throw new BadHead(400, "Content-Length is malformed")
  const length = Number(fields.length)
  return length === 0 ? { kind: "none" } : { kind: "length", length }
}

const responseFraming = (fields: Fields, status: number, method: string): Framing => {
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return { kind: "none" }
  if (fields.transferEncoding !== undefined) {
    if (fields.lengthCount > 0 || fields.transferEncoding.toLowerCase() !== "chunked") {
      throw new BadHead(502, "the answer's length can be read in two ways")
    }
    return { kind: "chunked" }
  }
  if (fields.lengthCount === 0) return { kind: "until-close" }
  if (!DIGITS.test(fields.length)) throw new BadHead(502, "Content-Length is malformed")
  return { kind: "length", length: Number(fields.length) }
}
