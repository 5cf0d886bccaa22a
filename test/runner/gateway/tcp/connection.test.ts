/** A client connection over a fake socket: requests do not depend on how their bytes are cut, and deadlines hold. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { renderResponse } from "../../../../src/runner/gateway/http/response.ts"
import { createConnection } from "../../../../src/runner/gateway/tcp/connection.ts"
import type { HttpExchange } from "../../../../src/runner/gateway/tcp/http-exchange.ts"

const seed = Date.now() % 2 ** 31

interface FakeSocket {
  readonly written: () => string
  readonly isPaused: () => boolean
  /** `shutdown`, `end` and `terminate`, in the order of their calls. */
  readonly calls: string[]
  /** How many more bytes the socket accepts. */
  accepts: number
}

const connect = (onRequest: (exchange: HttpExchange) => void, now: () => number = () => 0) => {
  let out = ""
  let paused = false
  const calls: string[] = []
  const refused: number[] = []
  const note = (call: string) => () => void calls.push(call)
  const fake: FakeSocket = {
    written: () => out,
    isPaused: () => paused,
    calls,
    accepts: Number.POSITIVE_INFINITY,
  }
  const connection = createConnection({
    socket: {
      remoteAddress: "127.0.0.1",
      write: (bytes: Uint8Array) => {
        const taken = Math.min(fake.accepts, bytes.length)
        fake.accepts -= taken
        out += Buffer.from(bytes.subarray(0, taken)).toString("latin1")
        return taken
      },
      shutdown: note("shutdown"),
      end: () => {
        calls.push("end")
        return 0
      },
      terminate: note("terminate"),
      pause: () => {
        paused = true
      },
      resume: () => {
        paused = false
      },
    },
    now,
    onRequest,
    onRequestOver: () => {},
    onRefused: (status) => void refused.push(status),
  })
  return { connection, fake, refused }
}

/** Collects the body and calls `done` with it. */
const collect = (exchange: HttpExchange, done: (body: string) => void) => {
  const pieces: Buffer[] = []
  exchange.receive(
    {
      data: (bytes) => void pieces.push(Buffer.from(bytes)),
      end: () => done(Buffer.concat(pieces).toString("latin1")),
      closed: () => {},
      drained: () => {},
    },
    "decoded",
  )
}

interface Sent {
  readonly framing: "none" | "length" | "chunked"
  readonly parts: readonly string[]
  /** An empty line before the request, as some clients send after a body. */
  readonly emptyLine: boolean
  /** How many packets arrive between the end of the request and its response. */
  readonly delay: number
}

const wireOf = ({ framing, parts, emptyLine }: Sent, at: number): string => {
  const start = `${emptyLine ? "\r\n" : ""}POST /r${at} HTTP/1.1\r\nHost: s\r\n`
  const body = parts.join("")
  switch (framing) {
    case "none":
      return `${start}\r\n`
    case "length":
      return `${start}Content-Length: ${body.length}\r\n\r\n${body}`
    case "chunked": {
      const chunks = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`)
      return `${start}Transfer-Encoding: chunked\r\n\r\n${chunks.join("")}0\r\nX-T: 1\r\n\r\n`
    }
  }
}

const responseOf = (request: Sent): string =>
  renderResponse({ status: 200, body: `echo ${bodyOf(request)}` }, false, true).toString("latin1")

const bodyOf = ({ framing, parts }: Sent): string => (framing === "none" ? "" : parts.join(""))

/** Sends the requests in packets of these sizes, as far as the connection accepts them; returns requests and responses. */
const exchangeAll = (requests: readonly Sent[], tail: string, cuts: readonly number[]) => {
  const seen: string[] = []
  const unanswered: { left: number; readonly respond: () => void }[] = []
  const { connection, fake, refused } = connect((exchange) => {
    const at = seen.length
    collect(exchange, (body) => {
      seen.push(`${exchange.head.target} ${body}`)
      const respond = () => exchange.respond({ status: 200, body: `echo ${body}` })
      const delay = requests[at]?.delay ?? 0
      if (delay === 0) respond()
      else unanswered.push({ left: delay, respond })
    })
  })
  let rest = Buffer.from(requests.map(wireOf).join("") + tail, "latin1")
  let cut = 0
  const isStuck = () => rest.length > 0 && fake.isPaused()
  while (rest.length > 0 || unanswered.length > 0) {
    if (isStuck() && unanswered.length === 0) throw new Error("paused without an open request")
    if (rest.length > 0 && !fake.isPaused()) {
      const size = cuts[cut % cuts.length] ?? 1
      cut += 1
      const packet = rest.subarray(0, size)
      rest = rest.subarray(size)
      connection.data(packet)
    }
    for (const waiting of unanswered) waiting.left -= 1
    while (unanswered[0] && (unanswered[0].left <= 0 || rest.length === 0 || isStuck())) {
      unanswered.shift()?.respond()
    }
  }
  const statuses: string[] = fake.written().match(/HTTP\/1\.1 \d{3}/g) ?? []
  return { seen, statuses, refused, fake }
}

// No H, so that a body does not contain a status line.
const text = fc.stringMatching(/^[\r\n !-GI-~]{1,60}$/)
const sent: fc.Arbitrary<Sent> = fc.record({
  framing: fc.constantFrom("none", "length", "chunked"),
  parts: fc.array(text),
  emptyLine: fc.boolean(),
  delay: fc.nat(4),
})
const cuts = fc.array(fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 3000 })), {
  minLength: 1,
  maxLength: 8,
})

describe("a client connection", () => {
  test(`pipelined requests and their responses are the same however their bytes are cut (seed ${seed})`, () => {
    fc.assert(
      fc.property(fc.array(sent, { minLength: 1, maxLength: 8 }), cuts, (requests, sizes) => {
        const { seen, refused, fake } = exchangeAll(requests, "", sizes)
        expect(seen).toEqual(requests.map((request, at) => `/r${at} ${bodyOf(request)}`))
        expect(fake.written()).toBe(requests.map(responseOf).join(""))
        expect([refused, fake.calls]).toEqual([[], []])
      }),
      { numRuns: 500, seed },
    )
  })

  test(`bytes that are not a request end the connection after the responses before them, however they are cut (seed ${seed})`, () => {
    const garbage = fc.constantFrom(
      "BREW\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    )
    const after = "GET /smuggled HTTP/1.1\r\nHost: s\r\n\r\n"
    fc.assert(
      fc.property(fc.array(sent, { maxLength: 4 }), garbage, cuts, (requests, bad, sizes) => {
        const { seen, statuses, refused, fake } = exchangeAll(requests, bad + after, sizes)
        expect(seen).toEqual(requests.map((request, at) => `/r${at} ${bodyOf(request)}`))
        expect(statuses).toEqual([...requests.map(() => "HTTP/1.1 200"), "HTTP/1.1 400"])
        expect([refused, fake.calls]).toEqual([[400], ["shutdown"]])
      }),
      { numRuns: 300, seed },
    )
  })

  test("a head of the greatest length is accepted and one byte more is refused, however they are cut", () => {
    const head = (length: number) => {
      const start = "GET / HTTP/1.1\r\nHost: s\r\nX: "
      return `${start}${"a".repeat(length - start.length)}\r\n\r\n`
    }
    for (const size of [1, 2, 3, 4, 1000, 40_000]) {
      expect(exchangeAll([], head(32 * 1024), [size]).statuses).toEqual(["HTTP/1.1 200"])
      expect(exchangeAll([], head(32 * 1024 + 1), [size]).statuses).toEqual(["HTTP/1.1 431"])
    }
  })

  test("a handler that responds before the body is complete is given no more of it", () => {
    const events: string[] = []
    const { connection, fake } = connect((exchange) =>
      exchange.receive(
        {
          data: (bytes) => {
            events.push(bytes.toString())
            exchange.respond({ status: 413 })
          },
          end: () => void events.push("end"),
          closed: () => void events.push("closed"),
          drained: () => {},
        },
        "decoded",
      ),
    )
    const head = "POST / HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.data(Buffer.from(`${head}1\r\na\r\n1\r\nb\r\n0\r\n\r\nGET / HTTP/1.1\r\n`))
    expect(events).toEqual(["a"])
    expect([fake.written().slice(0, 12), fake.calls]).toEqual(["HTTP/1.1 413", []])
  })
})

describe("the end of a connection", () => {
  const lastRequest = Buffer.from("GET / HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n")
  const start = (accepts = Number.POSITIVE_INFINITY) => {
    let at = 0
    const { connection, fake } = connect(
      (exchange) => exchange.respond({ status: 200, body: "bye" }),
      () => at,
    )
    fake.accepts = accepts
    connection.data(lastRequest)
    /** Lets time pass with a packet every 100 ms and a sweep every second. */
    const keepSending = (ms: number) => {
      for (const end = at + ms; at < end;) {
        at += 100
        connection.data(Buffer.from("more"))
        if (at % 1000 === 0) connection.sweep(at)
      }
    }
    return { connection, fake, keepSending }
  }

  test("a client that keeps sending after its response is closed at a deadline that its bytes do not extend", () => {
    const { fake, keepSending } = start()
    keepSending(1000)
    expect(fake.calls).toEqual(["shutdown"])
    keepSending(1000)
    expect(fake.calls).toEqual(["shutdown", "end"])
  })

  test("a response that the client has not accepted is not cut short by the linger deadline", () => {
    const { connection, fake, keepSending } = start(10)
    keepSending(60_000)
    expect(fake.calls).toEqual([])
    fake.accepts = Number.POSITIVE_INFINITY
    connection.drain()
    expect(fake.written()).toEndWith("bye")
    keepSending(1000)
    expect(fake.calls).toEqual(["shutdown"])
    keepSending(1000)
    expect(fake.calls).toEqual(["shutdown", "end"])
  })

  test("a response that the client never accepts is given up after 10 minutes, even if the client keeps sending", () => {
    const { fake, keepSending } = start(10)
    keepSending(10 * 60_000)
    expect(fake.calls).toEqual([])
    keepSending(1000)
    expect(fake.calls).toEqual(["end"])
  })
})
