/** The one reader of bodies of other programs, up to a limit: a hostile body would otherwise fill the memory of this program. */
import { systemClock } from "./clock.ts"

interface Body {
  readonly body: ReadableStream<Uint8Array> | null
  readonly headers?: Headers
}

type Bytes = Uint8Array<ArrayBuffer>

/** The status that refuses a request: its body is too long, or it does not come to its end. */
export type BodyRefusal = 413 | 408

/** A body of a few megabytes takes less, also from a slow network. */
const REQUEST_MS = 60_000

/** Undefined: the body is longer. The rest of it is not read. */
export const readLimited = async (from: Body, limit: number): Promise<Bytes | undefined> => {
  const result = await read(from, limit)
  return typeof result === "number" ? undefined : result
}

export const readLimitedText = async (from: Body, limit: number): Promise<string | undefined> => {
  const bytes = await readLimited(from, limit)
  return bytes && new TextDecoder().decode(bytes)
}

/**
 * The body of a request within a limit of bytes and of time. A body that is little longer is read to its end before it is refused:
 * closing a connection that the client still writes to would lose the answer. The rest of a longer one is not read.
 */
export const readRequest = async (
  request: Body,
  limit: number,
  ms = REQUEST_MS,
): Promise<Bytes | BodyRefusal> => {
  const late = Promise.withResolvers<408>()
  const cancel = systemClock.after(ms, () => late.resolve(408))
  try {
    return await read(request, limit, late.promise)
  } finally {
    cancel()
  }
}

export const readRequestText = async (
  request: Body,
  limit: number,
): Promise<string | BodyRefusal> => {
  const bytes = await readRequest(request, limit)
  return typeof bytes === "number" ? bytes : new TextDecoder().decode(bytes)
}

const read = async (
  { body, headers }: Body,
  limit: number,
  late?: Promise<408>,
): Promise<Bytes | BodyRefusal> => {
  if (!body) return new Uint8Array()
  const reader = body.getReader()
  const next = () => (late ? Promise.race([reader.read(), late]) : reader.read())
  const refuse = (status: BodyRefusal): BodyRefusal => {
    // A stream that has failed cannot be cancelled; the refusal is the same.
    reader.cancel().catch(() => {})
    return status
  }
  const most = late ? 2 * limit : limit
  if (Number(headers?.get("content-length") ?? 0) > most) return refuse(413)
  const pieces: Uint8Array[] = []
  let length = 0
  for (;;) {
    const piece = await next()
    if (piece === 408) return refuse(length > limit ? 413 : 408)
    if (piece.done) break
    length += piece.value.length
    if (length > most) return refuse(413)
    if (length <= limit) pieces.push(piece.value)
    else pieces.length = 0
  }
  return length > limit ? refuse(413) : concat(pieces, length)
}

const concat = (pieces: readonly Uint8Array[], length: number): Bytes => {
  const whole = new Uint8Array(length)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
