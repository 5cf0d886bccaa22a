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

/** The body of a request within a limit of bytes and of time. After a refusal the rest of it is not read. */
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
  const refuse = (status: BodyRefusal): BodyRefusal => {
    // A stream that has failed cannot be cancelled; the refusal is the same.
    reader.cancel().catch(() => {})
    return status
  }
  if (Number(headers?.get("content-length") ?? 0) > limit) return refuse(413)
  const pieces: Uint8Array[] = []
  let length = 0
  for (;;) {
    const next = await (late ? Promise.race([reader.read(), late]) : reader.read())
    if (next === 408) return refuse(408)
    if (next.done) break
    length += next.value.length
    if (length > limit) return refuse(413)
    pieces.push(next.value)
  }
  return concat(pieces, length)
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
