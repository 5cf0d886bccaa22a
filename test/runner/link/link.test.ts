/** The link over real sockets: resets, half-open connections, refusals, session agents of both protocols. */
import { Database } from "bun:sqlite"
import { createHash } from "node:crypto"
import { afterEach, describe, expect, test } from "bun:test"
import { connect, createServer, type Socket } from "node:net"
import { systemClock } from "../../../src/lib/clock.ts"
import type { CommandFrame, OutboundFrame } from "../../../src/wire/frames/index.ts"
import { openOutboxStore } from "../../../src/runner/link/outbox-store.ts"
import { createOutbox, type OutboxStore } from "../../../src/runner/link/outbox.ts"
import { linkPolicy } from "../../../src/runner/link/link-state.ts"
import { RequestError } from "../../../src/runner/link/pending-requests.ts"
import { loopbackPace } from "../../../src/runner/link/retry-pace.ts"
import { createLink, type Link, type LinkOptions } from "../../../src/runner/link/link.ts"
import { createManualClock } from "../../kit/clock.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../../kit/session-agent.ts"
import { startTcpProxy } from "../../kit/tcp-proxy.ts"
import { recordingLog } from "../../kit/log.ts"
import { untilTrue } from "../../kit/until-true.ts"

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

const sessionAgent = (
  options: Parameters<typeof startTestSessionAgent>[0] = {},
): TestSessionAgent => {
  const agent = startTestSessionAgent(options)
  cleanups.push(agent.stop)
  return agent
}

const proxyTo = async (agent: TestSessionAgent) => {
  const proxy = await startTcpProxy(Number(new URL(agent.url).port))
  cleanups.push(proxy.stop)
  return { ...proxy, url: `ws://127.0.0.1:${proxy.port}/ws` }
}

const memoryDb = () => {
  const db = new Database(":memory:", { strict: true })
  db.run("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")
  return db
}

const quick = {
  pace: { ...loopbackPace, backoff: { min: 10, max: 40 }, quickMaxMs: 40 },
  stableMs: 1000,
  maxRefusals: 5,
}

interface Linked extends Link {
  readonly log: string[]
  readonly received: CommandFrame[]
  readonly ended: Promise<{ code: number; why: string }>
}

const startLink = (
  to: { readonly url: string; readonly token: string },
  options: Partial<LinkOptions> & { store?: OutboxStore; maxBytes?: number } = {},
): Linked => {
  const lines: string[] = []
  const received: CommandFrame[] = []
  const ended = Promise.withResolvers<{ code: number; why: string }>()
  const link = createLink({
    url: to.url,
    token: to.token,
    sessionId: "s",
    version: "0",
    epoch: "e",
    outbox: createOutbox({
      store: options.store ?? openOutboxStore(memoryDb()),
      maxBytes: options.maxBytes ?? 1e9,
      onStoreFailure: () => {},
    }),
    clock: systemClock,
    // The log is not given any secret: it must recognize what to hide by its form.
    log: recordingLog(lines),
    policy: quick,
    active: () => [],
    onFrame: (frame) => void received.push(frame),
    onConnected: () => {},
    onEnd: (code, why) => ended.resolve({ code, why }),
    ...options,
  })
  link.start()
  cleanups.push(() => link.stop(0))
  return { ...link, log: lines, received, ended: ended.promise }
}

const numbered = (n: number): OutboundFrame => ({ type: "complete", messageId: String(n) })
const numbersOf = (agent: TestSessionAgent) =>
  agent.frames.flatMap((frame) => (frame.type === "complete" ? [Number(frame.messageId)] : []))
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)

describe("a link with connection resets", () => {
  test("5,000 frames are delivered once and in order over 20 connection resets", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const link = startLink({ url: proxy.url, token: agent.token })
    for (let index = 0; index < 5000; index += 1) {
      link.send(numbered(index))
      if (index % 240 === 100) {
        proxy.reset()
        // Sleep: the resets come at any point of the new connection.
        await Bun.sleep(3)
      }
      // Sleep: the frames come over some time, so that resets hit the stream at many places.
      if (index % 20 === 0) await Bun.sleep(1)
    }
    await agent.until(() => agent.frames.length >= 5000, "5,000 frames")
    expect(numbersOf(agent)).toEqual(upTo(5000))
    expect(agent.problems).toEqual([])
    expect(agent.connections()).toBeGreaterThanOrEqual(10)
    expect(link.counters().reconnects).toBeGreaterThanOrEqual(9)
  })

  test("frames created while the link is down are delivered in order after it reconnects", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const link = startLink({ url: proxy.url, token: agent.token })
    await agent.until(agent.isConnected, "connection")
    proxy.setDown(true)
    proxy.reset()
    for (const index of upTo(300)) link.send(numbered(index))
    await untilTrue(() => link.log.join("").includes("retryInMs"), "the lost connection")
    proxy.setDown(false)
    await agent.until(() => agent.frames.length >= 300, "300 frames")
    expect(numbersOf(agent)).toEqual(upTo(300))
  })

  test("after each of ten short cuts in a row the runner dials again within 250 ms", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const link = startLink(
      { url: proxy.url, token: agent.token },
      { policy: linkPolicy(loopbackPace) },
    )
    const connected = (times: number) => () =>
      link.state() === "open" && link.counters().reconnects === times && agent.isConnected()
    await agent.until(() => agent.hellos.length === 1, "the first connection")
    // A frame that arrives shows that the session agent's welcome was received.
    link.send(numbered(0))
    await agent.frame("complete")
    for (const cut of upTo(10)) {
      proxy.reset()
      await agent.until(connected(cut + 1), `connection after cut ${cut + 1}`)
    }
    const waits = link.log.flatMap((line) => /"retryInMs":(\d+)/.exec(line)?.[1] ?? [])
    expect(waits).toHaveLength(10)
    expect(Math.max(...waits.map(Number))).toBeLessThanOrEqual(250)
  })

  test("frames continue after a session agent closes the link and keeps its stored frames", async () => {
    const agent = sessionAgent()
    const link = startLink(agent)
    link.send(numbered(0))
    await agent.frame("complete")
    agent.close(1011, "Internal error")
    link.send(numbered(1))
    await agent.until(() => agent.frames.length === 2, "the second frame")
    expect(numbersOf(agent)).toEqual([0, 1])
  })
})

describe("a half-open connection", () => {
  test("a half-open connection is detected and replaced without losing a frame", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const link = startLink(
      { url: proxy.url, token: agent.token },
      { timing: { pingMs: 60, pongMs: 40 } },
    )
    await agent.until(agent.isConnected, "connection")
    link.send(numbered(0))
    await agent.frame("complete")
    proxy.freeze()
    for (const index of [1, 2, 3]) link.send(numbered(index))
    await agent.until(() => agent.frames.length >= 4, "all frames")
    expect(numbersOf(agent)).toEqual(upTo(4))
    expect(link.log.join("")).toContain("no response to a ping")
  })

  test("a silent connection is closed after 40 s by default", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const clock = createManualClock()
    const link = startLink({ url: proxy.url, token: agent.token }, { clock })
    await agent.until(agent.isConnected, "connection")
    await agent.until(() => link.state() === "open" && agent.hellos.length === 1, "hello")
    await agent.until(() => link.counters().framesIn > 0, "welcome")
    proxy.freeze()
    clock.advance(39_999)
    expect(link.state()).toBe("open")
    clock.advance(1)
    expect(link.state()).toBe("waiting")
  })
})

/** A server that keeps the connection open after its close frame, as a host of hibernated WebSockets does. */
const startLingeringServer = async (serve: (socket: Socket, head: Buffer) => void) => {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {})
    socket.once("data", (head) => serve(socket, head as Buffer))
    cleanups.push(() => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  cleanups.push(() => server.close())
  const address = server.address()
  return { url: `ws://127.0.0.1:${typeof address === "object" && address ? address.port : 0}/` }
}

const accepted = (head: Buffer): string => {
  const key = /sec-websocket-key: (.*)\r\n/i.exec(head.toString())?.[1] ?? ""
  const accept = createHash("sha1")
    .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest("base64")
  return `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`
}

const closing = (code: number, reason: string): Buffer => {
  const text = Buffer.from(reason)
  return Buffer.concat([Buffer.from([0x88, 2 + text.length, code >> 8, code & 255]), text])
}

describe("a link closed or refused by the session agent", () => {
  test("a replaced runner ends within 2 s of the close frame even if the connection stays open", async () => {
    const clock = createManualClock()
    let closedAt = Number.NaN
    const { url } = await startLingeringServer((socket, head) => {
      socket.write(accepted(head))
      socket.write(closing(1000, "Replaced by new runner connection"))
      closedAt = clock.now()
    })
    const { ended } = startLink({ url, token: "t" }, { clock })
    let hasEnded = false
    void ended.then(() => (hasEnded = true))
    await untilTrue(() => {
      if (!hasEnded) clock.advance(10)
      return hasEnded
    }, "end of the link")
    expect(await ended).toMatchObject({ code: 0 })
    expect(clock.now() - closedAt).toBeLessThan(2000)
  })

  test("a session agent of the first protocol gets no words of sub-agents, which it would take for the answer", async () => {
    const agent = sessionAgent({ protocol: 1 })
    const link = startLink(agent, { timing: { welcomeMs: 30 } })
    const words = { type: "message.part.text-delta", turnId: "t" } as const
    link.send({ ...words, partId: "c/p", delta: "of the child", childSessionId: "c" })
    link.send({ ...words, partId: "p", delta: 'with "childSessionId": in its text' })
    await agent.frame("message.part.text-delta")
    expect(agent.frames.flatMap((frame) => ("delta" in frame ? [frame.delta] : []))).toEqual([
      'with "childSessionId": in its text',
    ])
  })

  test("frames created after a close frame go to the next connection even if the old one stays open", async () => {
    const agent = sessionAgent({ protocol: 1 })
    const answered = Promise.withResolvers<void>()
    let sendClose = () => {}
    let connections = 0
    const { url } = await startLingeringServer((socket, head) => {
      connections += 1
      if (connections === 1) {
        socket.write(accepted(head))
        sendClose = () => void socket.write(closing(1011, "Internal error"))
        // The runner's own close frame shows that it has received the server's.
        socket.on("data", (bytes) => bytes[0] === 0x88 && answered.resolve())
        return
      }
      const onward = connect(Number(new URL(agent.url).port), "127.0.0.1")
      onward.on("error", () => {})
      onward.write(head)
      socket.pipe(onward).pipe(socket)
    })
    const opened = Promise.withResolvers<void>()
    const link = startLink(
      { url, token: agent.token },
      { timing: { welcomeMs: 30 }, onConnected: opened.resolve },
    )
    await opened.promise
    sendClose()
    await answered.promise
    for (const index of upTo(20)) link.send(numbered(index))
    await agent.until(() => agent.frames.length >= 20, "20 frames", 5000)
    expect(numbersOf(agent)).toEqual(upTo(20))
  })

  test.each(["Session terminated", "Session hibernating"])(
    "the close reason %j ends the link with code 0",
    async (reason) => {
      const agent = sessionAgent()
      const { ended } = startLink(agent)
      await agent.until(agent.isConnected, "connection")
      agent.close(1000, reason)
      expect(await ended).toEqual({ code: 0, why: reason })
    },
  )

  test("five refusals of the token end the link with code 3, and the log does not contain the token", async () => {
    const agent = sessionAgent()
    const wrong = "wrong-token-0123456789"
    const { ended, log } = startLink({ url: agent.url, token: wrong })
    expect(await ended).toMatchObject({ code: 3 })
    expect(log.join("\n")).toContain("HTTP 401")
    expect(log.join("\n")).not.toContain(wrong)
  })

  test("a link that is refused with 503 retries until it is accepted", async () => {
    let refusals = 0
    const agent = sessionAgent({ refuse: () => ((refusals += 1) < 8 ? 503 : undefined) })
    const link = startLink(agent)
    link.send(numbered(0))
    await agent.frame("complete")
    expect(refusals).toBeGreaterThanOrEqual(8)
  })
})

describe.each([1, 2] as const)("a session agent of protocol %i", (protocol) => {
  const timing = { welcomeMs: 30 }

  test("frames arrive in order, and have a seq only with protocol 2", async () => {
    const agent = sessionAgent({ protocol })
    const link = startLink(agent, { timing })
    for (const index of upTo(500)) link.send(numbered(index))
    await agent.until(() => agent.frames.length >= 500, "500 frames")
    expect(numbersOf(agent)).toEqual(upTo(500))
    expect(agent.frames.every((frame) => "seq" in frame)).toBe(protocol === 2)
  })

  test("frames created while the link is down arrive in order after a reconnect", async () => {
    const agent = sessionAgent({ protocol })
    const proxy = await proxyTo(agent)
    const link = startLink({ url: proxy.url, token: agent.token }, { timing })
    link.send(numbered(0))
    await agent.frame("complete")
    proxy.setDown(true)
    proxy.reset()
    // Wait until the runner has noticed the reset: protocol 1 loses frames that are written into a dying socket.
    await agent.until(() => link.state() !== "open", "the cut")
    for (let index = 1; index < 200; index += 1) link.send(numbered(index))
    proxy.setDown(false)
    await agent.until(() => agent.frames.length >= 200, "200 frames")
    expect(numbersOf(agent)).toEqual(upTo(200))
  })

  test("frames of a runner that died before it could connect are sent by the next runner", async () => {
    const agent = sessionAgent({ protocol })
    const db = memoryDb()
    const first = startLink(
      { url: "ws://127.0.0.1:1/", token: "t" },
      { store: openOutboxStore(db) },
    )
    for (const index of upTo(50)) first.send(numbered(index))
    // The first runner stops after its last commit: only its stored frames are left.
    await Promise.resolve()
    const second = startLink(agent, { store: openOutboxStore(db), timing })
    second.send(numbered(50))
    await agent.until(() => agent.frames.length >= 51, "51 frames")
    expect(numbersOf(agent)).toEqual(upTo(51))
  })

  test("a dead connection is detected and replaced", async () => {
    const agent = sessionAgent({ protocol })
    const proxy = await proxyTo(agent)
    const link = startLink(
      { url: proxy.url, token: agent.token },
      { timing: { ...timing, pingMs: 80, pongMs: 50 } },
    )
    link.send(numbered(0))
    await agent.frame("complete")
    proxy.freeze()
    await agent.until(() => agent.connections() === 2, "the second connection")
    link.send(numbered(1))
    await agent.frame("complete", ({ messageId }) => messageId === "1")
  })

  test("a request resolves with the result of the session agent", async () => {
    const agent = sessionAgent({ protocol })
    const link = startLink(agent, { timing })
    const result = link.request("memory-read", { query: "x" })
    const { requestId } = await agent.frame("memory-read")
    agent.say({ type: "memory-read-result", requestId, memories: [] })
    expect(await result).toMatchObject({ memories: [] })
  })

  test("a request is sent again after a reset only with protocol 2, which recognizes duplicates", async () => {
    const agent = sessionAgent({ protocol })
    const proxy = await proxyTo(agent)
    const link = startLink({ url: proxy.url, token: agent.token }, { timing })
    const result = link.request("task-list", {})
    const { requestId } = await agent.frame("task-list")
    proxy.reset()
    await agent.until(() => link.counters().reconnects === 1, "the reconnect")
    link.send(numbered(0))
    await agent.frame("complete")
    const times = agent.frames.filter(({ type }) => type === "task-list").length
    expect(times).toBe(protocol)
    agent.say({ type: "task-list-result", requestId, tasks: [] })
    expect(await result).toMatchObject({ tasks: [] })
  })
})

describe("requests", () => {
  test("a request survives a reconnect: it is sent again under the same id and settles once", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const link = startLink({ url: proxy.url, token: agent.token })
    const result = link.request("task-list", {})
    const { requestId } = await agent.frame("task-list")
    proxy.reset()
    await agent.until(
      () => agent.frames.filter(({ type }) => type === "task-list").length === 2,
      "repeat",
    )
    const ids = agent.frames.flatMap((frame) =>
      frame.type === "task-list" ? [frame.requestId] : [],
    )
    expect(ids).toEqual([requestId, requestId])
    agent.say({ type: "task-list-result", requestId, tasks: [] })
    agent.say({ type: "task-list-result", requestId, tasks: [] })
    expect(await result).toMatchObject({ tasks: [] })
    await agent.until(
      () => link.counters().unexpectedResults === 1,
      "the second result to be dropped",
    )
  })

  test("a refused request fails with the session agent's error message", async () => {
    const agent = sessionAgent()
    const link = startLink(agent)
    const result = link.request("memory-delete", { memoryId: "m" })
    const { requestId } = await agent.frame("memory-delete")
    agent.say({ type: "memory-delete-result", requestId, error: "no such memory" })
    expect(result).rejects.toMatchObject({ failure: "refused", message: "no such memory" })
  })

  test("a request without a result fails at its deadline, and the late result is dropped", async () => {
    const agent = sessionAgent()
    const clock = createManualClock()
    const link = startLink(agent, { clock })
    await agent.until(() => link.counters().framesIn > 0, "welcome")
    const result = link.request("list-channels", {})
    const { requestId } = await agent.frame("list-channels")
    const failed = result.catch((error: unknown) => error)
    clock.advance(15_000)
    expect(await failed).toMatchObject({ failure: "timeout" })
    agent.say({ type: "list-channels-result", requestId, channels: [] })
    await agent.until(
      () => link.counters().unexpectedResults === 1,
      "the late result to be dropped",
    )
  })

  test("a request without a connection fails at its deadline as offline", async () => {
    const clock = createManualClock()
    const link = startLink({ url: "ws://127.0.0.1:1/", token: "t" }, { clock })
    const failed = link.request("list-channels", {}).catch((error: unknown) => error)
    clock.advance(15_000)
    expect(await failed).toMatchObject({ failure: "offline" })
  })

  test("a request that is pending when the runner stops fails with an error that says so", async () => {
    const agent = sessionAgent()
    const link = startLink(agent)
    const failed = link.request("list-channels", {}).catch((error: unknown) => error)
    await agent.frame("list-channels")
    await link.stop(0)
    expect(await failed).toBeInstanceOf(RequestError)
    expect(await failed).toMatchObject({
      failure: "closing",
      message: "the runner is shutting down",
    })
  })
})

describe("a full outbox", () => {
  test("producers of frames wait while the outbox is full", async () => {
    const agent = sessionAgent({ refuse: () => (open ? undefined : 503) })
    let open = false
    const link = startLink(agent, { maxBytes: 2000 })
    for (const index of upTo(100)) link.send(numbered(index))
    await untilTrue(() => link.room() !== undefined, "full outbox")
    const room = link.room()
    expect(room).toBeInstanceOf(Promise)
    expect(link.log.join("")).toContain("link.backlog-full")
    open = true
    await room
    await agent.until(() => agent.frames.length === 100, "100 frames")
    expect(link.room()).toBeUndefined()
  })
})

test("the first frame of a connection identifies the runner and lists its active jobs", async () => {
  const agent = sessionAgent()
  const active = [
    { messageId: "m", channelKey: "web:default", turnId: "t", opencodeSessionId: "ses" },
  ]
  startLink(agent, { active: () => active })
  await agent.until(() => agent.hellos.length === 1, "hello")
  expect(agent.hellos[0]).toMatchObject({
    protocol: 2,
    sessionId: "s",
    epoch: "e",
    nextSeq: 1,
    active,
  })
})

test("2,000 deltas arrive complete and in order, some of them merged", async () => {
  const agent = sessionAgent()
  const link = startLink(agent)
  await agent.until(() => link.counters().framesIn > 0, "welcome")
  const textDelta = (delta: string): OutboundFrame => ({
    type: "message.part.text-delta",
    turnId: "t",
    partId: "p",
    delta,
  })
  for (let index = 0; index < 2000; index += 1) link.send(textDelta(`${index} `))
  await agent.until(
    () => agent.frames.some((frame) => "delta" in frame && frame.delta.includes("1999")),
    "the last delta",
  )
  const deltas = agent.frames.flatMap((frame) => ("delta" in frame ? [frame.delta] : []))
  expect(deltas.join("")).toBe(
    upTo(2000)
      .map((index) => `${index} `)
      .join(""),
  )
  expect(link.counters().coalesced).toBeGreaterThan(0)
})
