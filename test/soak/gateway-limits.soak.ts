/** The gateway under overload: many connections, large bodies, slow clients. Its memory is measured in a separate process. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Socket } from "bun"
import { type Apart, startApart } from "../runner/gateway/separate-process.ts"
import { createManualClock, type ManualClock } from "../kit/clock.ts"
import {
  api,
  API_TOKEN,
  logIn,
  makeToken,
  speak,
  startTestGateway,
  statusOf,
} from "../runner/gateway/kit.ts"
import { failureOf } from "../kit/failure-of.ts"
import { untilTrue } from "../kit/until-true.ts"

const MB = 1024 * 1024
let uploaded = 0
let backend: Bun.Server<undefined>
let apart: Apart

beforeAll(async () => {
  backend = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    maxRequestBodySize: 4096 * MB,
    fetch: async (request) => {
      uploaded = 0
      if (request.body) for await (const bytes of request.body) uploaded += bytes.length
      return new Response(String(uploaded))
    },
  })
  apart = await startApart(backend.port ?? 0)
})

afterAll(async () => {
  await apart.stop()
  await backend.stop(true)
})

/** Sends `size` bytes after a head as fast as they are accepted; resolves with the response. */
const pour = (head: string, size: number): Promise<{ answer: string; sent: number }> =>
  new Promise((resolve, reject) => {
    const block = Buffer.alloc(1 * MB, 97)
    let sent = 0
    let answer = ""
    const more = (socket: Socket) => {
      while (sent < size) {
        const part = block.subarray(0, Math.min(block.length, size - sent))
        const written = socket.write(part)
        if (written <= 0) return
        sent += written
        if (written < part.length) return
      }
    }
    Bun.connect({
      hostname: "127.0.0.1",
      port: apart.port,
      socket: {
        open: (socket) => {
          socket.write(head)
          more(socket)
        },
        drain: more,
        data: (socket, bytes) => {
          answer += bytes.toString("latin1")
          if (/\r\n\r\n[^]*[\d}]$/.test(answer)) socket.end()
        },
        close: () => resolve({ answer, sent }),
        error: () => resolve({ answer, sent }),
      },
    }).catch(reject)
  })

test("an upload of 1 GB reaches the backend in constant memory", async () => {
  const size = 1024 * MB
  const head = `PUT /vscode/up HTTP/1.1\r\nHost: s\r\nCookie: ${apart.cookie}\r\nContent-Length: ${size}\r\n\r\n`
  const { answer } = await pour(head, size)
  expect(statusOf(answer)).toBe(200)
  expect(uploaded).toBe(size)
  expect(apart.peakMb()).toBeLessThan(100)
})

describe("a body of 2 GB", () => {
  const size = 2048 * MB
  test("a body of 2 GB without a token is refused before it is read", async () => {
    const { answer, sent } = await pour(
      `PUT /vscode/up HTTP/1.1\r\nHost: s\r\nContent-Length: ${size}\r\n\r\n`,
      size,
    )
    expect(statusOf(answer)).toBe(401)
    expect(sent).toBeLessThan(64 * MB)
  })
  test("a body of 2 GB for the API is 413, with a length or in chunks", async () => {
    const token = `Authorization: Bearer ${API_TOKEN}`
    const counted = await pour(
      `POST /api/tasks HTTP/1.1\r\nHost: s\r\n${token}\r\nContent-Length: ${size}\r\n\r\n`,
      size,
    )
    expect(statusOf(counted.answer)).toBe(413)
    const chunked = await pour(
      `POST /api/tasks HTTP/1.1\r\nHost: s\r\n${token}\r\nTransfer-Encoding: chunked\r\n\r\n${size.toString(16)}\r\n`,
      size,
    )
    expect(statusOf(chunked.answer)).toBe(413)
    expect(chunked.sent).toBeLessThan(64 * MB)
  })
  test("the gateway stays below 150 MB after bodies of 2 GB", () => {
    expect(apart.peakMb()).toBeLessThan(150)
  })
})

test("100,000 logins with a bad token are refused with 401 or 429 and use no memory", async () => {
  const total = 100_000
  const batch = 500
  const bad = `GET /vscode/?token=${makeToken({ secret: "not the key of this gateway" })} HTTP/1.1\r\nHost: s\r\n\r\n`
  const statuses = new Map<string, number>()
  const run = async () => {
    for (let at = 0; at < total / batch / 4; at += 1) {
      const answers = await exchangeMany(apart.port, bad, batch)
      for (const status of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all([run(), run(), run(), run()])
  expect([...statuses.keys()].toSorted()).toEqual(["401", "429"])
  expect((statuses.get("401") ?? 0) + (statuses.get("429") ?? 0)).toBe(total)
  expect(statuses.get("401") ?? 0).toBeLessThan(100)
  expect(apart.nowMb()).toBeLessThan(150)
  const good = await fetch(`${apart.url}/vscode/?token=${makeToken()}`)
  expect(good.status).toBe(200)
})

/** Sends the same request many times over one connection, and returns the statuses of the responses. */
const exchangeMany = (port: number, request: string, times: number): Promise<string[]> =>
  new Promise((resolve, reject) => {
    const statuses: string[] = []
    let rest = ""
    let waiting = Buffer.from(request.repeat(times))
    const flush = (socket: Socket) => {
      waiting = waiting.subarray(Math.max(0, socket.write(waiting)))
    }
    Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        open: flush,
        drain: flush,
        data: (socket, bytes) => {
          rest += bytes.toString("latin1")
          for (const [, status] of rest.matchAll(/HTTP\/1\.1 (\d{3}) /g))
            statuses.push(status ?? "")
          rest = rest.slice(rest.lastIndexOf("\n") + 1)
          if (statuses.length >= times) socket.end()
        },
        close: () => resolve(statuses),
        error: (_, error) => reject(error),
      },
    }).catch(reject)
  })

test("10,000 idle sockets do not block other clients, and the oldest are closed", async () => {
  const before = apart.nowMb()
  const sockets: Socket[] = []
  let closed = 0
  const quiet = { data: () => {}, close: () => void (closed += 1), error: () => {} }
  for (let at = 0; at < 10_000; at += 250) {
    const batch = Array.from({ length: 250 }, () =>
      Bun.connect({ hostname: "127.0.0.1", port: apart.port, socket: quiet }),
    )
    sockets.push(...(await Promise.all(batch)))
    expect((await fetch(`${apart.url}/health`)).status).toBe(200)
  }
  const page = await fetch(`${apart.url}/vscode/`, { headers: { cookie: apart.cookie } })
  expect(page.status).toBe(200)
  await untilTrue(
    () => closed > 5800,
    () => `end of the oldest sockets, only ${closed}`,
  )
  expect(apart.nowMb() - before).toBeLessThan(100)
  for (const socket of sockets) socket.terminate()
  expect((await fetch(`${apart.url}/health`)).status).toBe(200)
})

test("a new connection is 503 when every socket is busy", async () => {
  const gateway = startTestGateway({
    mostSockets: 2,
    backends: { vscode: silent.port, vnc: 1, ttyd: 1 },
  })
  const cookie = await logIn(gateway, "/vscode/")
  const held = [1, 2].map(() => {
    const leaving = new AbortController()
    void fetch(`${gateway.url}/vscode/wait`, {
      headers: { cookie },
      signal: leaving.signal,
      keepalive: false,
    }).catch(() => {})
    return leaving
  })
  await waiting(2)
  expect(
    statusOf(
      await speak(gateway.port, "GET /health HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n"),
    ),
  ).toBe(503)
  for (const leaving of held) leaving.abort()
  await gateway.stop()
})

/** A backend that never responds to /wait, and to /slow when the test says so. */
let asked = 0
let slow = Promise.withResolvers<void>()
const silent = Bun.listen({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    data: (socket, bytes) => {
      const text = bytes.toString()
      if (/\/(?:wait|slow)/.test(text)) asked += 1
      if (text.includes("/wait")) return
      if (text.includes("/slow"))
        void slow.promise.then(() => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow"))
      else socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    },
  },
})
const waiting = (times: number) =>
  untilTrue(
    () => asked >= times,
    () => `${times} requests, only ${asked}`,
  )
afterAll(() => silent.stop(true))

describe("a slow client", () => {
  const healthy = "GET /health HTTP/1.1\r\nHost: s\r\n\r\n"
  /** Requests /health first, in the same packet: its response proves that the rest has arrived too. */
  const open = async (port: number, text: string) => {
    let got = ""
    let over = false
    const first = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<string>()
    await Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        open: (socket) => void socket.write(healthy + text),
        data: (_, bytes) => {
          got += bytes.toString("latin1")
          first.resolve()
        },
        close: () => {
          over = true
          ended.resolve(got.slice(got.indexOf("}") + 1))
        },
      },
    })
    await first.promise
    return { rest: ended.promise, isOver: () => over }
  }
  const seconds = (clock: ManualClock, count: number) => {
    for (let second = 0; second < count; second += 1) clock.advance(1000)
  }

  test("a client that does not complete its head within 10 s gets 408", async () => {
    const clock = createManualClock(Date.now())
    const gateway = startTestGateway({ clock })
    const client = await open(gateway.port, "GET /health HTTP/1.1\r\nHost: s\r\nX-A:")
    seconds(clock, 14)
    expect(statusOf(await client.rest)).toBe(408)
    void gateway.stop()
  })
  test("a client that pauses for 60 s in its body gets 408", async () => {
    const clock = createManualClock(Date.now())
    const gateway = startTestGateway({ clock })
    const token = `Authorization: Bearer ${API_TOKEN}`
    const client = await open(
      gateway.port,
      `POST /api/tasks HTTP/1.1\r\nHost: s\r\n${token}\r\nContent-Length: 50\r\n\r\n{`,
    )
    seconds(clock, 64)
    expect(statusOf(await client.rest)).toBe(408)
    void gateway.stop()
  })
  test("an idle connection is closed after 75 s and not before", async () => {
    const clock = createManualClock(Date.now())
    const gateway = startTestGateway({ clock })
    const client = await open(gateway.port, "")
    seconds(clock, 74)
    expect((await fetch(`${gateway.url}/health`)).status).toBe(200)
    expect(client.isOver()).toBe(false)
    seconds(clock, 3)
    expect(await client.rest).toBe("")
    void gateway.stop()
  })
})

test("a slow response of the API is kept alive by interim responses", async () => {
  const clock = createManualClock()
  const answered = Promise.withResolvers<Record<string, unknown>>()
  let asking = 0
  const gateway = startTestGateway({
    clock,
    request: async () => {
      asking += 1
      return answered.promise
    },
  })
  const response = api(gateway, "GET", "/child-sessions")
  const headers = `Host: s\r\nAuthorization: Bearer ${API_TOKEN}\r\nConnection: close`
  const raw = speak(gateway.port, `GET /api/child-sessions HTTP/1.1\r\n${headers}\r\n\r\n`)
  await untilTrue(
    () => asking >= 2,
    () => `two requests, only ${asking}`,
  )
  for (let beat = 0; beat < 20; beat += 1) clock.advance(30_000)
  answered.resolve({ children: [] })
  expect(await (await response).json()).toEqual({ children: [] })
  expect((await raw).match(/HTTP\/1\.1 102 Processing\r\n\r\n/g)).toHaveLength(20)
  void gateway.stop()
})

describe("shutdown", () => {
  test("a shutdown lets a running request complete and accepts no new connection", async () => {
    const gateway = startTestGateway({ backends: { vscode: silent.port, vnc: 1, ttyd: 1 } })
    const cookie = await logIn(gateway)
    asked = 0
    slow = Promise.withResolvers()
    const running = fetch(`${gateway.url}/vscode/slow`, { headers: { cookie } })
    await waiting(1)
    const stopping = gateway.stop()
    expect(await failureOf(fetch(`${gateway.url}/health`))).not.toBe("no failure")
    slow.resolve()
    expect(await (await running).text()).toBe("slow")
    await stopping
  })
  test("a shutdown does not wait for a request that does not end", async () => {
    const clock = createManualClock(Date.now())
    const gateway = startTestGateway({
      clock,
      backends: { vscode: silent.port, vnc: 1, ttyd: 1 },
    })
    const cookie = await logIn(gateway)
    asked = 0
    const running = fetch(`${gateway.url}/vscode/wait`, { headers: { cookie } }).catch(() => "cut")
    await waiting(1)
    let isStopped = false
    const stopped = gateway.stop().then(() => void (isStopped = true))
    const began = clock.now()
    await untilTrue(() => {
      clock.advance(20)
      return isStopped
    }, "end of the gateway")
    await stopped
    expect(clock.now() - began).toBeLessThan(7000)
    expect(await running).toBe("cut")
  })
  test("a port that is taken is named in the error", async () => {
    const gateway = startTestGateway()
    expect(() => startTestGateway({ port: gateway.port })).toThrow(
      `cannot listen on 127.0.0.1:${gateway.port} (GATEWAY_PORT, GATEWAY_HOST)`,
    )
    await gateway.stop()
  })
})
