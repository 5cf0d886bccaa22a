/** Scripted replies as they arrive over HTTP, whole and broken. */
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
  test("is chunks in OpenAI's form: the role, the deltas, the finish reason, the usage, the end", async () => {
    const said = reply(
      reasoning("hmm"),
      text("hello", { chunks: 2 }),
      usage({ input: 7, output: 3, cached: 2, reasoning: 1 }),
    )
    const { response, events } = await ask(said)
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

  test("has no usage unless asked for", async () => {
    const { events } = await ask(text("hi"), { stream_options: undefined })
    expect(events.join()).not.toContain("usage")
  })

  test("carries parallel tool calls, and a raw string of arguments as it is", async () => {
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

  test("finishes for the reason it is told", async () => {
    const { events } = await ask(reply(text("hi"), finish("length")))
    expect(events.join()).toContain('"finish_reason":"length"')
  })

  test("is spread over time", async () => {
    const before = performance.now()
    await ask(text("hello", { chunks: 5, delayMs: 20 }))
    expect(performance.now() - before).toBeGreaterThan(90)
  })
})

describe("a reply that is not streamed", () => {
  test("is one completion", async () => {
    const said = reply(
      reasoning("hmm"),
      text("hello", { chunks: 3 }),
      tool("bash", { command: "ls" }),
    )
    const { body } = await ask(said, { stream: false })
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

  test("fails with a status where a stream would hold an error", async () => {
    const { response, body } = await ask(streamError("odd"), { stream: false })
    expect(response.status).toBe(500)
    expect(JSON.parse(body)).toEqual({ error: { message: "odd" } })
  })
})

describe("a reply that fails", () => {
  test("with a status sends its headers and an error in OpenAI's form", async () => {
    const { response, body } = await ask(
      httpError(429, { message: "slow down", retryAfterSeconds: 30 }),
    )
    expect(response.status).toBe(429)
    expect(response.headers.get("retry-after")).toBe("30")
    expect(JSON.parse(body)).toMatchObject({ error: { message: "slow down", code: null } })
  })

  test("for its length says so in OpenAI's words", async () => {
    const { response, body } = await ask(overflow())
    expect(response.status).toBe(400)
    expect(JSON.parse(body)).toMatchObject({ error: { code: "context_length_exceeded" } })
    expect(body).toContain("maximum context length")
  })

  test("by an error in the stream ends there", async () => {
    const { events } = await ask(
      reply(text("a"), streamError("overloaded", { code: 529 }), text("b")),
    )
    expect(events.at(-1)).toBe('{"error":{"message":"overloaded","code":529}}')
  })

  test("by an early end closes cleanly, without a finish reason", async () => {
    const { received, ending } = await rawAsk(eof(2))
    expect(pieces(received)).toEqual(["", "word ", "word "])
    expect(received).toEndWith("0\r\n\r\n")
    expect(received).not.toContain("[DONE]")
    expect(received).not.toContain('"finish_reason":"')
    expect(ending).toBe("open")
  })

  test("by a cut is a TCP reset after what was sent", async () => {
    const { received, ending } = await rawAsk(
      reply(text("abcd", { chunks: 2 }), cut(), text("never")),
    )
    expect(pieces(received)).toEqual(["", "ab", "cd"])
    expect(received).not.toEndWith("0\r\n\r\n")
    expect(ending).toBe("ECONNRESET")
  })

  test("by a cut at once is a TCP reset before any header", async () => {
    expect(await rawAsk(cut())).toEqual({ received: "", ending: "ECONNRESET" })
  })

  test("by hanging sends no header and keeps the connection", async () => {
    expect(await rawAsk(hang())).toEqual({ received: "", ending: "open" })
  })

  test("by a stall sends what comes before it and keeps the connection", async () => {
    const { received, ending } = await rawAsk(hang(3))
    expect(pieces(received)).toEqual(["", "word ", "word ", "word "])
    expect(received).not.toEndWith("0\r\n\r\n")
    expect(ending).toBe("open")
  })
})

describe("the server", () => {
  test("stops a reply at once when the client goes away", async () => {
    const requests: ChatRequest[] = []
    const server = await start((request) => {
      requests.push(request)
      return text("x".repeat(1000), { chunks: 1000, delayMs: 10 })
    })
    const client = new AbortController()
    const response = await post(server, {}, client.signal)
    await response.body?.getReader().read()
    client.abort()
    await Bun.sleep(50)
    expect(requests.map(({ signal }) => signal.aborted)).toEqual([true])
  })

  test("does not call a reply aborted that came to its end", async () => {
    const requests: ChatRequest[] = []
    const server = await start((request) => {
      requests.push(request)
      return text("hi")
    })
    await (await post(server)).text()
    await Bun.sleep(20)
    expect(requests.map(({ signal }) => signal.aborted)).toEqual([false])
  })

  test("stops although a reply hangs", async () => {
    const server = await startModelServer({ respond: () => hang() })
    const pending = post(server).then(
      () => "answered",
      () => "dropped",
    )
    await Bun.sleep(50)
    await server.stop()
    expect(await pending).toBe("dropped")
  })

  test("lists its models, and knows no other path", async () => {
    const server = await start(() => text("hi"))
    const models = await fetch(`${server.url}/models`)
    expect(await models.json()).toMatchObject({ object: "list", data: [{ id: "m1" }] })
    expect((await fetch(`${server.url}/other`)).status).toBe(404)
  })

  test("refuses a wrong key, and a body that is no chat request", async () => {
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

  test("rejects when its port is taken", async () => {
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

async function ask(answer: Reply, change: object = {}) {
  const response = await post(await start(() => answer), change)
  const body = await response.text()
  const events = body.split("\n\n").flatMap((event) => event.match(/^data: (.*)$/)?.[1] ?? [])
  return { response, body, events }
}

/** Over a bare socket: what arrives within a moment, and what becomes of the connection. */
async function rawAsk(answer: Reply): Promise<{ received: string; ending: string }> {
  const { port } = await start(() => answer)
  const body = JSON.stringify(REQUEST)
  let received = ""
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: model\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      )
    })
    const settle = (ending: string) => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ received, ending })
    }
    const timer = setTimeout(() => settle("open"), 300)
    socket.on("data", (data) => (received += data.toString()))
    socket.on("error", (error) => settle("code" in error ? String(error.code) : error.message))
    socket.on("end", () => settle("closed"))
  })
}

/** The content of each chunk in a raw answer. */
const pieces = (received: string): string[] =>
  [...received.matchAll(/"content":"([^"]*)"/g)].map((match) => match[1] ?? "")

function toolCalls(data: string) {
  if (data === "[DONE]") return []
  const { choices } = chunkShape.parse(JSON.parse(data))
  return choices.flatMap(({ delta }) => delta.tool_calls ?? [])
}
