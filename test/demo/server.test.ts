/** Scripted replies over HTTP: streamed, whole and failing. */
import { afterEach, describe, expect, test } from "bun:test"
import { connect } from "node:net"
import { z } from "zod"

import type { Reply } from "../../src/demo/reply.ts"
import type { ChatRequest } from "../../src/demo/request.ts"
import { type ModelServer, startModelServer } from "../../src/demo/server.ts"
import {
  cut,
  eof,
  finish,
  hang,
  httpError,
  overflow,
  reasoning,
  reply,
  streamError,
  text,
  tool,
  tools,
  usage,
} from "../kit/model.ts"
import { untilTrue } from "../kit/until-true.ts"

const callShape = z.looseObject({
  index: z.number(),
  id: z.string().optional(),
  function: z.looseObject({ arguments: z.string() }),
})
const chunkShape = z.looseObject({
  id: z.string(),
  choices: z.array(
    z.looseObject({ delta: z.looseObject({ tool_calls: z.array(callShape).optional() }) }),
  ),
})

const started: ModelServer[] = []

afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()))
})

describe("a streamed reply", () => {
  test("a streamed reply has OpenAI's chunks: role, deltas, finish reason, usage, end", async () => {
    const scripted = reply(
      reasoning("hmm"),
      text("hello", { chunks: 2 }),
      usage({ input: 7, output: 3, cached: 2, reasoning: 1 }),
    )
    const { response, events } = await ask(scripted)
    expect(response.headers.get("content-type")).toBe("text/event-stream")
    expect(events.at(-1)).toBe("[DONE]")
    const chunks = events.slice(0, -1).map((data) => chunkShape.parse(JSON.parse(data)))
    const same = { object: "chat.completion.chunk", model: "m1", created: expect.any(Number) }
    for (const chunk of chunks) expect(chunk).toMatchObject(same)
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1)
    expect(chunks).toMatchObject([
      choice({ role: "assistant", content: "" }),
      choice({ reasoning_content: "hmm" }),
      choice({ content: "hel" }),
      choice({ content: "lo" }),
      choice({}, "stop"),
      {
        choices: [],
        usage: {
          prompt_tokens: 7,
          completion_tokens: 3,
          total_tokens: 10,
          prompt_tokens_details: { cached_tokens: 2 },
          completion_tokens_details: { reasoning_tokens: 1 },
        },
      },
    ])
  })

  test("a streamed reply has usage only if the request asks for it", async () => {
    const { events } = await ask(text("hi"), { stream_options: undefined })
    expect(events.join()).not.toContain("usage")
  })

  test("a streamed reply has parallel tool calls and leaves string arguments unchanged", async () => {
    const calls = [
      { name: "bash", args: { command: "ls" } },
      { name: "write", args: "{broken" },
    ]
    const { events } = await ask(tools(calls))
    const deltas = events.flatMap((data) => toolCalls(data))
    expect(deltas.filter(({ id }) => id !== undefined)).toEqual([
      opening(0, "bash"),
      opening(1, "write"),
    ])
    const json = (index: number) =>
      deltas.map((delta) => (delta.index === index ? delta.function.arguments : "")).join("")
    expect(json(0)).toBe('{"command":"ls"}')
    expect(json(1)).toBe("{broken")
    expect(events.join()).toContain('"finish_reason":"tool_calls"')
  })

  test("a streamed reply ends with the scripted finish reason", async () => {
    const { events } = await ask(reply(text("hi"), finish("length")))
    expect(events.join()).toContain('"finish_reason":"length"')
  })

  test("a streamed reply waits the scripted delay between chunks", async () => {
    const before = performance.now()
    await ask(text("hello", { chunks: 5, delayMs: 20 }))
    expect(performance.now() - before).toBeGreaterThan(90)
  })
})

describe("a reply that is not streamed", () => {
  test("a reply that is not streamed is one completion", async () => {
    const scripted = reply(
      reasoning("hmm"),
      text("hello", { chunks: 3 }),
      tool("bash", { command: "ls" }),
    )
    const { body } = await ask(scripted, { stream: false })
    expect(JSON.parse(body)).toMatchObject({
      object: "chat.completion",
      model: "m1",
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: "hello",
            reasoning_content: "hmm",
            tool_calls: [
              { type: "function", function: { name: "bash", arguments: '{"command":"ls"}' } },
            ],
          },
          finish_reason: "tool_calls",
        },
      ],
      usage: { completion_tokens: expect.any(Number) },
    })
  })

  test("a stream error becomes status 500 when the reply is not streamed", async () => {
    const { response, body } = await ask(streamError("odd"), { stream: false })
    expect(response.status).toBe(500)
    expect(JSON.parse(body)).toEqual({ error: { message: "odd" } })
  })
})

describe("a reply that fails", () => {
  test("an HTTP error has its headers and a body in OpenAI's format", async () => {
    const { response, body } = await ask(
      httpError(429, { message: "slow down", retryAfterSeconds: 30 }),
    )
    expect(response.status).toBe(429)
    expect(response.headers.get("retry-after")).toBe("30")
    expect(JSON.parse(body)).toMatchObject({ error: { message: "slow down", code: null } })
  })

  test("a context overflow has OpenAI's message and code", async () => {
    const { response, body } = await ask(overflow())
    expect(response.status).toBe(400)
    expect(JSON.parse(body)).toMatchObject({ error: { code: "context_length_exceeded" } })
    expect(body).toContain("maximum context length")
  })

  test("an error in the stream ends the stream", async () => {
    const { events } = await ask(
      reply(text("a"), streamError("overloaded", { code: 529 }), text("b")),
    )
    expect(events.at(-1)).toBe('{"error":{"message":"overloaded","code":529}}')
  })

  test("an early end closes the stream cleanly without a finish reason", async () => {
    const { received, ending } = await rawAsk(eof(2), (got) => got.endsWith("0\r\n\r\n"))
    expect(pieces(received)).toEqual(["", "word ", "word "])
    expect(received).toEndWith("0\r\n\r\n")
    expect(received).not.toContain("[DONE]")
    expect(received).not.toContain('"finish_reason":"')
    expect(ending).toBe("open")
  })

  test("a cut sends the chunks before it, then a TCP reset", async () => {
    const { received, ending } = await rawAsk(
      reply(text("abcd", { chunks: 2 }), cut(), text("never")),
    )
    expect(pieces(received)).toEqual(["", "ab", "cd"])
    expect(received).not.toEndWith("0\r\n\r\n")
    expect(ending).toBe("ECONNRESET")
  })

  test("a cut as the first step is a TCP reset before any header", async () => {
    expect(await rawAsk(cut())).toEqual({ received: "", ending: "ECONNRESET" })
  })

  test("a hang as the first step sends no header and keeps the connection open", async () => {
    expect(await rawAsk(hang(), () => true)).toEqual({ received: "", ending: "open" })
  })

  test("a hang after chunks sends them and keeps the connection open", async () => {
    const { received, ending } = await rawAsk(hang(3), (got) => pieces(got).length === 4)
    expect(pieces(received)).toEqual(["", "word ", "word ", "word "])
    expect(received).not.toEndWith("0\r\n\r\n")
    expect(ending).toBe("open")
  })
})

describe("the server", () => {
  test("a reply is aborted at once when the client disconnects", async () => {
    const requests: ChatRequest[] = []
    const server = await start((request) => {
      requests.push(request)
      return text("x".repeat(1000), { chunks: 1000, delayMs: 10 })
    })
    const client = new AbortController()
    const response = await post(server, {}, client.signal)
    await response.body?.getReader().read()
    client.abort()
    await untilTrue(() => requests[0]?.signal.aborted === true, "abort of the reply")
    expect(requests).toHaveLength(1)
  })

  test("a completed reply is not reported as aborted", async () => {
    const requests: ChatRequest[] = []
    const server = await start((request) => {
      requests.push(request)
      return text("hi")
    })
    await (await post(server)).text()
    // The stop closes the connection. No abort can come after it.
    await stop(server)
    expect(requests.map(({ signal }) => signal.aborted)).toEqual([false])
  })

  test("the server stops while a reply hangs", async () => {
    let isAsked = false
    const server = await start(() => {
      isAsked = true
      return hang()
    })
    const pending = post(server).then(
      () => "replied",
      () => "dropped",
    )
    await untilTrue(() => isAsked, "request")
    await stop(server)
    expect(await pending).toBe("dropped")
  })

  test("the server lists its models and returns 404 for other paths", async () => {
    const server = await start(() => text("hi"))
    const models = await fetch(`${server.url}/models`)
    expect(await models.json()).toMatchObject({ object: "list", data: [{ id: "m1" }] })
    expect((await fetch(`${server.url}/other`)).status).toBe(404)
  })

  test("the server rejects a wrong key and a body that is not a chat request", async () => {
    const server = await startModelServer({ apiKey: "right", respond: () => text("hi") })
    started.push(server)
    const send = (key: string, body: string) =>
      fetch(`${server.url}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}` },
        body,
      })
    expect((await send("wrong", "{}")).status).toBe(401)
    expect((await send("right", "{}")).status).toBe(400)
    expect((await send("right", "not json")).status).toBe(400)
    expect((await send("right", '{"model":"m1","messages":[]}')).status).toBe(200)
  })

  test("starting the server fails when its port is in use", async () => {
    const { port } = await start(() => text("hi"))
    const second = await startModelServer({ port, respond: () => text("hi") }).catch(String)
    expect(second).toContain(String(port))
  })
})

const opening = (index: number, name: string) => ({
  index,
  id: expect.any(String),
  type: "function",
  function: { name, arguments: "" },
})

const choice = (delta: object, reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason: reason }],
})

async function start(respond: (request: ChatRequest) => Reply): Promise<ModelServer> {
  const server = await startModelServer({ models: ["m1"], respond })
  started.push(server)
  return server
}

async function stop(server: ModelServer): Promise<void> {
  started.splice(started.indexOf(server), 1)
  await server.stop()
}

const REQUEST = {
  model: "m1",
  messages: [{ role: "user", content: "hi" }],
  stream: true,
  stream_options: { include_usage: true },
}

const post = (server: ModelServer, change: object = {}, signal: AbortSignal | null = null) =>
  fetch(`${server.url}/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ ...REQUEST, ...change }),
    signal,
  })

async function ask(scripted: Reply, change: object = {}) {
  const response = await post(await start(() => scripted), change)
  const body = await response.text()
  const events = body.split("\n\n").flatMap((event) => event.match(/^data: (.*)$/)?.[1] ?? [])
  return { response, body, events }
}

/**
 * Uses a plain socket: all bytes that were received until the server was stopped, and how the connection ended. It is "open" if it
 * has received what `isWhole` asks for and has not ended before the server has answered another request. Without `isWhole` the end
 * of the connection is awaited.
 */
async function rawAsk(
  scripted: Reply,
  isWhole: (received: string) => boolean = () => false,
): Promise<{ received: string; ending: string }> {
  let requests = 0
  const server = await start(() => {
    requests += 1
    return requests === 1 ? scripted : text("later")
  })
  const body = JSON.stringify(REQUEST)
  let received = ""
  let ending: string | undefined
  const socket = connect(server.port, "127.0.0.1", () => {
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: model\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
  })
  socket.on("data", (data) => (received += data.toString()))
  socket.on("error", (error) => (ending ??= "code" in error ? String(error.code) : error.message))
  socket.on("end", () => (ending ??= "closed"))
  const closed = new Promise((resolve) => socket.once("close", resolve))
  await untilTrue(
    () => ending !== undefined || (requests > 0 && isWhole(received)),
    () => `reply or end of the connection: ${received}`,
  )
  await (await post(server)).text()
  const atLast = ending ?? "open"
  await stop(server)
  await closed
  return { received, ending: atLast }
}

/** The content of each chunk in a raw response. */
const pieces = (received: string): string[] =>
  [...received.matchAll(/"content":"([^"]*)"/g)].map((match) => match[1] ?? "")

function toolCalls(data: string) {
  if (data === "[DONE]") return []
  const { choices } = chunkShape.parse(JSON.parse(data))
  return choices.flatMap(({ delta }) => delta.tool_calls ?? [])
}
