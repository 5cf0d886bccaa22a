/**
 * Finds where the body of a message ends: by length, by chunks, or by the end of the connection. Pure: `readBody` takes
 * the state and the next bytes, cut anywhere, and returns the next state.
 */
import { HttpError, readFields } from "./fields.ts"
import type { Framing } from "./head.ts"

/**
 * `verbatim` passes chunks on with their framing, for a peer that also reads chunks (trailers are dropped); `decoded`
 * passes only the data in the chunks.
 */
export type BodyForm = "verbatim" | "decoded"

export type BodyState =
  | { readonly kind: "done" }
  | { readonly kind: "until-close" }
  | { readonly kind: "length"; readonly left: number }
  | ChunkState

interface ChunkState {
  readonly kind: "chunked"
  readonly form: BodyForm
  readonly phase: ChunkPhase
  /** The chunk size read so far, and how many digits it has. */
  readonly size: number
  readonly digits: number
  /** Bytes of the current chunk that have not arrived. */
  readonly left: number
  readonly trailer: string
}

type ChunkPhase = "size" | "size-lf" | "data" | "data-cr" | "data-lf" | "trailer" | "done"

export interface BodyProgress {
  readonly state: BodyState
  /** Body bytes to hand on, in order. */
  readonly pieces: readonly Buffer[]
  /** How many of the given bytes belong to this message; the rest is the next message. */
  readonly consumed: number
}

const DONE: BodyState = { kind: "done" }

export const startBody = (framing: Framing, form: BodyForm = "verbatim"): BodyState => {
  switch (framing.kind) {
    case "none":
      return DONE
    case "until-close":
      return framing
    case "length":
      return framing.length === 0 ? DONE : { kind: "length", left: framing.length }
    case "chunked":
      return { kind: "chunked", form, phase: "size", size: 0, digits: 0, left: 0, trailer: "" }
  }
}

/** Throws an HttpError for a malformed chunk. */
export const readBody = (state: BodyState, bytes: Buffer): BodyProgress => {
  switch (state.kind) {
    case "done":
      return { state, pieces: [], consumed: 0 }
    case "until-close":
      return { state, pieces: [bytes], consumed: bytes.length }
    case "length": {
      const consumed = Math.min(state.left, bytes.length)
      const left = state.left - consumed
      return {
        state: left === 0 ? DONE : { kind: "length", left },
        pieces: [consumed === bytes.length ? bytes : bytes.subarray(0, consumed)],
        consumed,
      }
    }
    case "chunked":
      return readChunks(state, bytes)
  }
}

const CR = 13
const LF = 10
const CRLF = Buffer.from("\r\n")
/** 13 hexadecimal digits stay below 2^53. */
const SIZE_DIGITS = 13
const TRAILER_LIMIT = 8192

/**
 * Chunk extensions are refused: clients do not send them, and parsers that disagree about them allow request smuggling.
 * Trailers are read and dropped, so that a trailer cannot pass for a header that was checked.
 */
const readChunks = (state: ChunkState, bytes: Buffer): BodyProgress => {
  const { form } = state
  let { phase, size, digits, left, trailer } = state
  const pieces: Buffer[] = []
  let at = 0
  let verbatimEnd = 0
  while (at < bytes.length && phase !== "done") {
    if (phase === "data") {
      const taken = Math.min(left, bytes.length - at)
      if (form === "decoded") pieces.push(bytes.subarray(at, at + taken))
      left -= taken
      at += taken
      if (left === 0) phase = "data-cr"
      verbatimEnd = at
      continue
    }
    const byte = bytes[at] ?? 0
    at += 1
    switch (phase) {
      case "size":
        if (byte === CR && digits > 0) {
          phase = "size-lf"
          break
        }
        digits += 1
        size = size * 16 + hexDigit(byte)
        if (digits > SIZE_DIGITS) throw malformedChunk()
        break
      case "size-lf":
        if (byte !== LF) throw malformedChunk()
        phase = size === 0 ? "trailer" : "data"
        left = size
        size = 0
        digits = 0
        break
      case "data-cr":
        if (byte !== CR) throw malformedChunk()
        phase = "data-lf"
        break
      case "data-lf":
        if (byte !== LF) throw malformedChunk()
        phase = "size"
        break
      case "trailer":
        trailer += String.fromCharCode(byte)
        if (trailer.length > TRAILER_LIMIT) throw new HttpError(431, "the trailers are too long")
        if (trailer === "\r\n" || trailer.endsWith("\r\n\r\n")) {
          checkTrailers(trailer)
          phase = "done"
        }
        continue
    }
    verbatimEnd = at
  }
  const isDone = phase === "done"
  if (form === "verbatim") {
    if (verbatimEnd > 0) pieces.push(bytes.subarray(0, verbatimEnd))
    if (isDone) pieces.push(CRLF)
  }
  return {
    state: isDone ? DONE : { kind: "chunked", form, phase, size, digits, left, trailer },
    pieces,
    consumed: at,
  }
}

/** Fields that decide about a message; in a trailer they come too late and can only mislead the next parser. */
const NEVER_TRAILER = new Set([
  "authorization",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "cookie",
  "expect",
  "host",
  "set-cookie",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
])

/** Dropped trailers are checked like headers: a parser that reads a malformed line differently ends the body elsewhere. */
const checkTrailers = (trailer: string): void => {
  if (trailer === "\r\n") return
  const { headers } = readFields(`\r\n${trailer.slice(0, -"\r\n\r\n".length)}`, 0)
  if (headers.some(({ key }) => NEVER_TRAILER.has(key))) {
    throw new HttpError(400, "a trailer must not decide how a message is read")
  }
}

const malformedChunk = () => new HttpError(400, "a chunk is malformed")

const hexDigit = (byte: number): number => {
  if (byte >= 48 && byte <= 57) return byte - 48
  const lower = byte | 32
  if (lower < 97 || lower > 102) throw malformedChunk()
  return lower - 87
}
