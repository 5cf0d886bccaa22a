/** Reads header fields in one pass, strictly: a field that two parsers read differently can be used to smuggle a request. */

export interface Header {
  readonly name: string
  /** The name in lower case, for comparisons. */
  readonly key: string
  readonly value: string
}

/** A message that is not valid HTTP or exceeds a limit; `status` is for the response. */
export class HttpError extends Error {
  override readonly name = "BadHead"
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const HEADER_LIMIT = 128
const SPACE = 32
const TAB = 9

/** Character classes, as a lookup table because every character of every head is checked. */
export const NAME = 1
export const VALUE = 2
export const TARGET = 4
const characters = new Uint8Array(256).map((_, code) => {
  const character = String.fromCharCode(code)
  const isName = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(character)
  const isValue = code === 9 || (code >= 32 && code !== 127)
  const isTarget = code > 32 && code < 127
  return (isName ? NAME : 0) | (isValue ? VALUE : 0) | (isTarget ? TARGET : 0)
})

/** Control characters other than tab, line feed and carriage return. */
const CONTROL = new RegExp(
  `[${[...Array(32).keys(), 127]
    .filter((code) => ![9, 10, 13].includes(code))
    .map((code) => `\\x${code.toString(16).padStart(2, "0")}`)
    .join("")}]`,
)

/** Common names and their lower case, to skip checking and converting them. */
const knownNames: ReadonlyMap<string, string> = new Map(
  `Accept Accept-Encoding Accept-Language Accept-Ranges Access-Control-Allow-Origin Age Authorization
   Cache-Control Connection Content-Encoding Content-Length Content-Range Content-Security-Policy
   Content-Type Cookie Date DNT ETag Expires Host If-Modified-Since If-None-Match Keep-Alive Last-Modified
   Location Origin Pragma Priority Range Referer Referrer-Policy Sec-Fetch-Dest Sec-Fetch-Mode
   Sec-Fetch-Site Sec-Fetch-User Server Set-Cookie Transfer-Encoding Upgrade Upgrade-Insecure-Requests
   User-Agent Vary X-Content-Type-Options X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto
   X-Powered-By X-Requested-With sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform`
    .split(/\s+/)
    .flatMap((name) => [
      [name, name.toLowerCase()],
      [name.toLowerCase(), name.toLowerCase()],
    ]),
)

/** Whether every character from `start` to `end` is in the class `kind`. */
export const isAll = (text: string, start: number, end: number, kind: number): boolean => {
  for (let at = start; at < end; at += 1) {
    if (((characters[text.charCodeAt(at)] ?? 0) & kind) === 0) return false
  }
  return true
}

/** The headers, and the values that decide how the message is read. */
export interface Fields {
  readonly headers: Header[]
  host: string
  hostCount: number
  length: string
  lengthCount: number
  transferEncoding: string | undefined
  /** The options of every `Connection` header, in lower case. */
  connection: string[]
  upgrade: string | undefined
  authorizations: number
}

export const readFields = (text: string, lineEnd: number): Fields => {
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
  if (CONTROL.test(text)) throw new HttpError(400, "a header contains a forbidden character")
  let at = lineEnd + 2
  while (at < text.length) {
    const end = endOfLine(text, at)
    const colon = text.indexOf(":", at)
    if (colon === -1 || colon >= end) throw new HttpError(400, "a header has no colon")
    const name = text.slice(at, colon)
    const key = knownNames.get(name) ?? checkedName(name)
    const value = trimmed(text, colon + 1, end)
    if (fields.headers.push({ name, key, value }) > HEADER_LIMIT) {
      throw new HttpError(431, "there are too many headers")
    }
    collect(fields, key, value)
    at = end + 2
  }
  return fields
}

/** A line ends with CR LF: a single CR or LF can be used to smuggle a header. */
const endOfLine = (text: string, start: number): number => {
  const feed = text.indexOf("\n", start)
  const end = feed === -1 ? text.length : feed - 1
  const carriage = text.indexOf("\r", start)
  if (carriage === -1 ? feed !== -1 : carriage !== end) {
    throw new HttpError(400, "a line does not end with CR LF")
  }
  return end
}

const checkedName = (name: string): string => {
  if (name === "" || !isAll(name, 0, name.length, NAME)) {
    throw new HttpError(400, "a header's name is malformed")
  }
  return name.toLowerCase()
}

const trimmed = (text: string, start: number, end: number): string => {
  let from = start
  let to = end
  while (from < to && isBlank(text.charCodeAt(from))) from += 1
  while (to > from && isBlank(text.charCodeAt(to - 1))) to -= 1
  return text.slice(from, to)
}

const isBlank = (code: number): boolean => code === SPACE || code === TAB

const collect = (fields: Fields, key: string, value: string): void => {
  switch (key) {
    case "host":
      fields.host = value
      fields.hostCount += 1
      return
    case "content-length":
      // The same length twice is accepted in a response; parseRequestHead refuses it.
      if (fields.lengthCount > 0 && fields.length !== value)
        throw new HttpError(400, "there are two different Content-Length headers")
      fields.length = value
      fields.lengthCount += 1
      return
    case "transfer-encoding":
      fields.transferEncoding =
        fields.transferEncoding === undefined ? value : `${fields.transferEncoding},${value}`
      return
    case "connection":
      for (const option of value.split(",")) fields.connection.push(option.trim().toLowerCase())
      return
    case "upgrade":
      fields.upgrade = value.toLowerCase()
      return
    case "authorization":
      fields.authorizations += 1
      if (fields.authorizations > 1) throw new HttpError(400, "there are two Authorization headers")
      return
  }
}
