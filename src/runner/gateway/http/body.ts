/** Finds where a body ends while its bytes pass by: by count, by chunks, or by the end of the connection. */
import { BadHead } from "./fields.ts"
import type { Framing } from "./head.ts"

export interface BodyReader {
  /** Hands on what belongs to the body; returns how many bytes of `bytes` it took. */
  readonly feed: (bytes: Buffer, emit: (bytes: Buffer) => void) => number
  readonly done: () => boolean
}

/**
 * `verbatim` passes chunks on as they came, framing and all, for a peer that reads chunks too (without their
 * trailers); `decoded` passes only what they hold.
 */
export const createBodyReader = (
  framing: Framing,
  form: "verbatim" | "decoded" = "verbatim",
): BodyReader => {
  switch (framing.kind) {
    case "none":
      return { feed: () => 0, done: () => true }
    case "until-close":
      return { feed: takeAll, done: () => false }
    case "length":
      return countedReader(framing.length)
    case "chunked":
      return chunkReader(form === "verbatim")
  }
}

const takeAll: BodyReader["feed"] = (bytes, emit) => {
  emit(bytes)
  return bytes.length
}

const countedReader = (length: number): BodyReader => {
  let left = length
  return {
    feed: (bytes, emit) => {
      const taken = Math.min(left, bytes.length)
      left -= taken
      if (taken > 0) emit(taken === bytes.length ? bytes : bytes.subarray(0, taken))
      return taken
    },
    done: () => left === 0,
  }
}

const CR = 13
const LF = 10
const CRLF = Buffer.from("\r\n")
/** 13 hexadecimal digits stay below 2^53. */
const SIZE_DIGITS = 13
const TRAILER_LIMIT = 8192

type ChunkPhase = "size" | "size-lf" | "data" | "data-cr" | "data-lf" | "trailer" | "done"

/**
 * Extensions are refused: nobody sends them, and parsers that disagree about them are how requests are smuggled.
 * Trailers are read and dropped, so that none of them can pass for a header behind the checks.
 */
const chunkReader = (verbatim: boolean): BodyReader => {
  let phase: ChunkPhase = "size"
  let size = 0
  let digits = 0
  let left = 0
  let trailer = ""

  const readSize = (byte: number) => {
    if (byte === CR && digits > 0) {
      phase = "size-lf"
      return
    }
    const digit = hexDigit(byte)
    digits += 1
    if (digit === -1 || digits > SIZE_DIGITS) throw new BadHead(400, "a chunk is malformed")
    size = size * 16 + digit
  }
  const expect = (byte: number, expected: number, next: ChunkPhase) => {
    if (byte !== expected) throw new BadHead(400, "a chunk is malformed")
    phase = next
  }
  const endSize = (byte: number) => {
    expect(byte, LF, size === 0 ? "trailer" : "data")
    left = size
    size = 0
    digits = 0
  }
  const readTrailer = (byte: number) => {
    trailer += String.fromCharCode(byte)
    if (trailer.length > TRAILER_LIMIT) throw new BadHead(431, "the trailers are too long")
    if (trailer === "\r\n" || trailer.endsWith("\r\n\r\n")) phase = "done"
  }

  return {
    feed: (bytes, emit) => {
      let at = 0
      let forwardEnd = 0
      while (at < bytes.length && phase !== "done") {
        if (phase === "data") {
          const taken = Math.min(left, bytes.length - at)
          if (!verbatim) emit(bytes.subarray(at, at + taken))
          left -= taken
          at += taken
          if (left === 0) phase = "data-cr"
        } else {
          const byte = bytes[at] ?? 0
          at += 1
          if (phase === "size") readSize(byte)
          else if (phase === "size-lf") endSize(byte)
          else if (phase === "data-cr") expect(byte, CR, "data-lf")
          else if (phase === "data-lf") expect(byte, LF, "size")
          else {
            readTrailer(byte)
            continue
          }
        }
        forwardEnd = at
      }
      if (verbatim) {
        if (forwardEnd > 0) emit(bytes.subarray(0, forwardEnd))
        if (phase === "done") emit(CRLF)
      }
      return at
    },
    done: () => phase === "done",
  }
}

const hexDigit = (byte: number): number => {
  if (byte >= 48 && byte <= 57) return byte - 48
  const lower = byte | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}
