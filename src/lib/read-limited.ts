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

/** The first bytes of a body. The rest of it is not read. */
export const readStart = async (
  { body }: Pick<Body, "body">,
  limit: number,
): Promise<{ readonly bytes: Bytes; readonly isWhole: boolean }> => {
  if (!body) return { bytes: new Uint8Array(), isWhole: true }
  const reader = body.getReader()
  const pieces: Uint8Array[] = []
  let length = 0
  let isWhole = false
  while (length < limit && !isWhole) {
    const { done, value } = await reader.read()
    isWhole = done
    const piece = value?.subarray(0, limit - length)
    if (piece === undefined) continue
    length += piece.length
    pieces.push(piece)
  }
  if (!isWhole) reader.cancel().catch(() => {})
  return { bytes: concat(pieces, length), isWhole }
}

/**
 * The body of a request within a limit of bytes and of time. The rest of a body that is little longer is read beside the answer:
 * closing a connection that the client still writes to would lose it. The rest of a much longer one is not read.
 */
export const readRequest = async (
  request: Body,
  limit: number,
  ms = REQUEST_MS,
): Promise<Bytes | BodyRefusal> => {
  const late = Promise.withResolvers<408>()
  const cancel = systemClock.after(ms, () => late.resolve(408))
  const result = await read(request, limit, late.promise).catch((error: unknown) => {
    cancel()
    throw error
  })
  // What is discarded after a refusal has the same time.
  if (typeof result !== "number") cancel()
  return result
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
  // A stream that has failed cannot be cancelled; the refusal is the same.
  const cancel = () => void reader.cancel().catch(() => {})
  const refuse = (status: BodyRefusal): BodyRefusal => {
    cancel()
    return status
  }
  /** Goes on beside the answer. */
  const discard = async (length: number): Promise<void> => {
    for (let seen = length; seen <= 2 * limit;) {
      const piece = await next()
      if (piece === 408) break
      if (piece.done) return
      seen += piece.value.length
    }
    cancel()
  }
  const tooLong = (length: number): BodyRefusal => {
    if (late) void discard(length).catch(cancel)
    else cancel()
    return 413
  }
  const announced = Number(headers?.get("content-length") ?? 0)
  if (announced > 2 * limit) return refuse(413)
  if (announced > limit) return tooLong(0)
  const pieces: Uint8Array[] = []
  let length = 0
  for (;;) {
    const piece = await next()
    if (piece === 408) return refuse(408)
    if (piece.done) return concat(pieces, length)
    length += piece.value.length
    if (length > limit) return tooLong(length)
    pieces.push(piece.value)
  }
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
