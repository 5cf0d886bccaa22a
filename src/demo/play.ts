/** Sends a scripted reply as an HTTP response: as a stream of chunks, or as one completion. */
import type { ServerResponse } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import type { Delta, ReplyScript, TimedDelta } from "./chunks.ts"
import type { Usage } from "./reply.ts"
import type { ChatRequest } from "./request.ts"

/** The fields that every chunk of a reply repeats. */
interface Envelope {
  readonly id: string
  readonly created: number
  readonly model: string
}

/** Resolves when the reply is sent; rejects with the signal's reason when the client disconnects first. */
export async function playStream(
  script: ReplyScript,
  envelope: Envelope,
  request: ChatRequest,
  response: ServerResponse,
): Promise<void> {
  const { deltas, end } = script
  const { signal } = request
  const send = (data: unknown) => response.write(`data: ${JSON.stringify(data)}\n\n`)
  const chunk = (choices: readonly unknown[], rest: object = {}) =>
    send({ ...envelope, object: "chat.completion.chunk", choices, ...rest })
  const choice = (delta: object, reason: string | null = null) =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: reason }])

  if (deltas.length === 0 && end.type === "hang") return untilAborted(signal)
  if (deltas.length === 0 && end.type === "cut") return reset(response)

  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" })
  choice({ role: "assistant", content: "" })
  for (const timed of deltas) {
    await due(timed, signal)
    choice(timed.delta)
  }

  switch (end.type) {
    case "finish":
      choice({}, end.reason)
      if (request.stream_options?.include_usage === true)
        chunk([], { usage: tokens(end.usage ?? estimate(request, script)) })
      response.end("data: [DONE]\n\n")
      return
    case "error":
      send({ error: end.error })
      response.end()
      return
    case "eof":
      response.end()
      return
    case "cut":
      // Wait until the written chunks are sent: a reset discards what is still in the kernel's buffer.
      await wait(FLUSH_MS, signal)
      reset(response)
      return
    case "hang":
      return untilAborted(signal)
  }
}

export async function playWhole(
  script: ReplyScript,
  envelope: Envelope,
  request: ChatRequest,
  response: ServerResponse,
): Promise<void> {
  const { deltas, end } = script
  for (const timed of deltas) await due(timed, request.signal)

  const json = (status: number, body: unknown) => {
    response.writeHead(status, { "content-type": "application/json" })
    response.end(JSON.stringify(body))
  }
  switch (end.type) {
    case "finish": {
      const message = wholeMessage(deltas.map(({ delta }) => delta))
      const choice = { index: 0, message, logprobs: null, finish_reason: end.reason }
      const usage = tokens(end.usage ?? estimate(request, script))
      json(200, { ...envelope, object: "chat.completion", choices: [choice], usage })
      return
    }
    case "error":
      json(500, { error: end.error })
      return
    case "eof":
      response.end()
      return
    case "cut":
      reset(response)
      return
    case "hang":
      return untilAborted(request.signal)
  }
}

const FLUSH_MS = 20

/** Resolves when the chunk may be sent. */
const due = async ({ until, delayMs }: TimedDelta, signal: AbortSignal): Promise<void> => {
  if (until) await Promise.race([until, untilAborted(signal)])
  await wait(delayMs, signal)
}

const wait = async (ms: number, signal: AbortSignal): Promise<void> => {
  if (ms > 0) await sleep(ms, undefined, { signal })
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener("abort", () => resolve(), { once: true })
  })

/** Sends a TCP reset; `destroy` would close the connection cleanly. */
const reset = (response: ServerResponse): void => {
  response.socket?.resetAndDestroy()
}

function wholeMessage(deltas: readonly Delta[]): object {
  const content = deltas.map((delta) => delta.content ?? "").join("")
  const thought = deltas.map((delta) => delta.reasoning_content ?? "").join("")
  const parts = deltas.flatMap((delta) => delta.tool_calls ?? [])
  const calls = parts
    .filter(({ id }) => id !== undefined)
    .map(({ index, id, type, function: { name } }) => {
      const pieces = parts.filter((part) => part.index === index)
      const json = pieces.map((piece) => piece.function.arguments).join("")
      return { id, type, function: { name, arguments: json } }
    })
  return {
    role: "assistant",
    content: content === "" ? null : content,
    ...(thought === "" ? {} : { reasoning_content: thought }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

/** Assumes four characters per token. */
const estimate = (request: ChatRequest, { deltas }: ReplyScript): Usage => ({
  input: Math.ceil(JSON.stringify([request.messages, request.tools]).length / 4),
  output: Math.ceil(deltas.map(({ delta }) => Object.values(delta).join("")).join("").length / 4),
})

const tokens = ({ input, output, cached = 0, reasoning = 0 }: Usage): object => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: reasoning },
})
