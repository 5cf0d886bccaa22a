/**
 * Parses the bytes of a server-sent event stream. All frames of one read are yielded together, so that they cost one
 * disk write. A frame that is too long ends the stream.
 */
import { createParser } from "eventsource-parser"
import type { Clock } from "../../../lib/clock.ts"

/** A tool's output may be megabytes, and a frame is held in memory whole. */
const MAX_FRAME_BYTES = 32 * 1024 * 1024

export interface FrameOptions {
  readonly clock: Clock
  /** Without bytes for this long the stream counts as dead, even if TCP is connected. */
  readonly silenceMs: number
  readonly maxFrameBytes?: number
}

/** Ends with the body; throws on silence, on a frame that is too long, and when the connection is aborted. */
export async function* readFrames(
  body: ReadableStream<Uint8Array>,
  connection: AbortController,
  { clock, silenceMs, maxFrameBytes = MAX_FRAME_BYTES }: FrameOptions,
): AsyncGenerator<readonly string[], void, undefined> {
  const ready: string[] = []
  const parser = createParser({ onEvent: ({ data }) => void ready.push(data) })
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let pendingBytes = 0
  const cancelRead = () => void reader.cancel(connection.signal.reason).catch(() => {})
  connection.signal.addEventListener("abort", cancelRead)
  try {
    while (true) {
      const cancelSilenceTimer = clock.after(silenceMs, () =>
        connection.abort(new Error(`no bytes from OpenCode in ${silenceMs} ms`)),
      )
      const { done, value } = await reader.read().finally(cancelSilenceTimer)
      connection.signal.throwIfAborted()
      if (done) return
      parser.feed(decoder.decode(value, { stream: true }))
      pendingBytes = ready.length > 0 ? 0 : pendingBytes + value.byteLength
      if (pendingBytes > maxFrameBytes)
        throw new Error(`a frame is longer than ${maxFrameBytes} bytes`)
      if (ready.length > 0) yield ready.splice(0)
    }
  } finally {
    connection.signal.removeEventListener("abort", cancelRead)
    await reader.cancel().catch(() => {})
  }
}
