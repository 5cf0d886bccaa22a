/**
 * The bytes of an event stream -> the data of its frames, those of one read together: what comes together is worked on
 * together, and costs one write to the disk. A frame too long to hold ends the stream.
 */
import { createParser } from "eventsource-parser"
import type { Clock } from "../../../lib/clock.ts"

/** The largest frame: a tool's output may be megabytes, and everything in it is read at once. */
const MAX_FRAME_BYTES = 32 * 1024 * 1024

export interface FrameOptions {
  readonly clock: Clock
  /** No bytes for this long: the stream is dead, whatever TCP says. */
  readonly silenceMs: number
  readonly maxFrameBytes?: number
}

/** Ends with the body; fails on silence, on a frame too long, and when the generation is given up. */
export async function* readFrames(
  body: ReadableStream<Uint8Array>,
  generation: AbortController,
  { clock, silenceMs, maxFrameBytes = MAX_FRAME_BYTES }: FrameOptions,
): AsyncGenerator<readonly string[], void, undefined> {
  const ready: string[] = []
  const parser = createParser({ onEvent: ({ data }) => void ready.push(data) })
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let held = 0
  const giveUp = () => void reader.cancel(generation.signal.reason).catch(() => {})
  generation.signal.addEventListener("abort", giveUp)
  try {
    while (true) {
      const cancelWatch = clock.after(silenceMs, () =>
        generation.abort(new Error(`no bytes from OpenCode in ${silenceMs} ms`)),
      )
      const { done, value } = await reader.read().finally(cancelWatch)
      generation.signal.throwIfAborted()
      if (done) return
      parser.feed(decoder.decode(value, { stream: true }))
      held = ready.length > 0 ? 0 : held + value.byteLength
      if (held > maxFrameBytes) throw new Error(`a frame is longer than ${maxFrameBytes} bytes`)
      if (ready.length > 0) yield ready.splice(0)
    }
  } finally {
    generation.signal.removeEventListener("abort", giveUp)
    await reader.cancel().catch(() => {})
  }
}
