/** The link over real sockets, with everything that can happen to them. */
import { Database } from "bun:sqlite"
import { createHash } from "node:crypto"
import { afterEach, describe, expect, test } from "bun:test"
import { connect, createServer, type Socket } from "node:net"
import { systemClock } from "../../../src/lib/clock.ts"
import type { CommandFrame, OutboundFrame } from "../../../src/wire/frames/index.ts"
import { openOutboxStore } from "../../../src/runner/link/outbox-store.ts"
import { createOutbox, type OutboxStore } from "../../../src/runner/link/outbox.ts"
import { RequestError } from "../../../src/runner/link/pending-requests.ts"
import { createLink, type Link, type LinkOptions } from "../../../src/runner/link/link.ts"
import { createManualClock } from "../../kit/clock.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../../kit/session-agent.ts"
import { startTcpProxy } from "../../kit/tcp-proxy.ts"
import { recordingLog } from "../../kit/log.ts"

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

const quick = { backoff: { min: 10, max: 40 }, stableMs: 1000, maxRefusals: 5 }

interface Linked extends Link {
  readonly log: string[]
  readonly heard: CommandFrame[]
  readonly ended: Promise<{ code: number; why: string }>
}

const link = (
  to: { readonly url: string; readonly token: string },
  options: Partial<LinkOptions> & { store?: OutboxStore; maxBytes?: number } = {},
): Linked => {
  const lines: string[] = []
  const heard: CommandFrame[] = []
  const ended = Promise.withResolvers<{ code: number; why: string }>()
  const uplink = createLink({
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
    // No secret is told to the log: what it hides it must know by shape.
    log: recordingLog(lines),
    policy: quick,
    active: () => [],
    onFrame: (frame) => void heard.push(frame),
    onConnected: () => {},
    onEnd: (code, why) => ended.resolve({ code, why }),
    ...options,
  })
  uplink.start()
  cleanups.push(() => uplink.stop(0))
  return { ...uplink, log: lines, heard, ended: ended.promise }
}

const numbered = (n: number): OutboundFrame => ({ type: "complete", messageId: String(n) })
const numbersOf = (agent: TestSessionAgent) =>
  agent.frames.flatMap((frame) => (frame.type === "complete" ? [Number(frame.messageId)] : []))
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)

describe("a link that is cut again and again", () => {
  test("delivers 5,000 frames once and in order over 20 resets", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const uplink = link({ url: proxy.url, token: agent.token })
    for (let index = 0; index < 5000; index += 1) {
      uplink.send(numbered(index))
      if (index % 240 === 100) {
        proxy.reset()
        await Bun.sleep(3)
      }
      if (index % 20 === 0) await Bun.sleep(1)
    }
    await agent.until(() => agent.frames.length >= 5000, "5,000 frames")
    expect(numbersOf(agent)).toEqual(upTo(5000))
    expect(agent.problems).toEqual([])
    expect(agent.connections()).toBeGreaterThanOrEqual(10)
    expect(uplink.counters().reconnects).toBeGreaterThanOrEqual(9)
  }, 30_000)

  test("delivers what was made while it was away, first and in order", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const uplink = link({ url: proxy.url, token: agent.token })
    await agent.until(agent.isConnected, "connection")
    proxy.setDown(true)
    proxy.reset()
    for (const index of upTo(300)) uplink.send(numbered(index))
    await Bun.sleep(50)
    proxy.setDown(false)
    await agent.until(() => agent.frames.length >= 300, "300 frames")
    expect(numbersOf(agent)).toEqual(upTo(300))
  })

  test("goes on after a session agent that restarted with its memory", async () => {
    const agent = sessionAgent()
    const uplink = link(agent)
    uplink.send(numbered(0))
    await agent.frame("complete")
    agent.close(1011, "Internal error")
    uplink.send(numbered(1))
    await agent.until(() => agent.frames.length === 2, "the second frame")
    expect(numbersOf(agent)).toEqual([0, 1])
  })
})

describe("a half-open link", () => {
  test("is noticed and replaced, and nothing is lost", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const uplink = link(
      { url: proxy.url, token: agent.token },
      { timing: { pingMs: 60, pongMs: 40 } },
    )
    await agent.until(agent.isConnected, "connection")
    uplink.send(numbered(0))
    await agent.frame("complete")
    proxy.freeze()
    for (const index of [1, 2, 3]) uplink.send(numbered(index))
    await agent.until(() => agent.frames.length >= 4, "all frames")
    expect(numbersOf(agent)).toEqual(upTo(4))
    expect(uplink.log.join("")).toContain("no answer to a ping")
  })

  test("is given up within 45 s of silence by default", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const clock = createManualClock()
    const uplink = link({ url: proxy.url, token: agent.token }, { clock })
    await agent.until(agent.isConnected, "connection")
    await agent.until(() => uplink.state() === "open" && agent.hellos.length === 1, "hello")
    await agent.until(() => uplink.counters().framesIn > 0, "welcome")
    proxy.freeze()
    clock.advance(39_999)
    expect(uplink.state()).toBe("open")
    clock.advance(1)
    expect(uplink.state()).toBe("waiting")
  })
})

/** A server that never ends a connection by itself, as one whose WebSockets are hibernated keeps them after its close frame. */
const lingering = async (serve: (socket: Socket, head: Buffer) => void) => {
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
  const words = Buffer.from(reason)
  return Buffer.concat([Buffer.from([0x88, 2 + words.length, code >> 8, code & 255]), words])
}

describe("when the session agent says that it is over", () => {
  test("a replaced runner ends within 2 s of the close frame, though the connection stays open", async () => {
    const { url } = await lingering((socket, head) => {
      socket.write(accepted(head))
      socket.write(closing(1000, "Replaced by new runner connection"))
    })
    const started = Date.now()
    const { ended } = link({ url, token: "t" })
    expect(await ended).toMatchObject({ code: 0 })
    expect(Date.now() - started).toBeLessThan(2000)
  })

  test("what is made after its close frame waits for the next connection, though this one stays open", async () => {
    const agent = sessionAgent({ protocol: 1 })
    const answered = Promise.withResolvers<void>()
    let sayClose = () => {}
    let connections = 0
    const { url } = await lingering((socket, head) => {
      connections += 1
      if (connections === 1) {
        socket.write(accepted(head))
        sayClose = () => void socket.write(closing(1011, "Internal error"))
        // The runner's own close frame: it has seen the one that came.
        socket.on("data", (bytes) => bytes[0] === 0x88 && answered.resolve())
        return
      }
      const onward = connect(Number(new URL(agent.url).port), "127.0.0.1")
      onward.on("error", () => {})
      onward.write(head)
      socket.pipe(onward).pipe(socket)
    })
    const opened = Promise.withResolvers<void>()
    const uplink = link(
      { url, token: agent.token },
      { timing: { welcomeMs: 30 }, onConnected: opened.resolve },
    )
    await opened.promise
    sayClose()
    await answered.promise
    for (const index of upTo(20)) uplink.send(numbered(index))
    await agent.until(() => agent.frames.length >= 20, "20 frames", 5000)
    expect(numbersOf(agent)).toEqual(upTo(20))
  })

  test.each(["Session terminated", "Session hibernating"])(
    "%s ends it with code 0",
    async (reason) => {
      const agent = sessionAgent()
      const { ended } = link(agent)
      await agent.until(agent.isConnected, "connection")
      agent.close(1000, reason)
      expect(await ended).toEqual({ code: 0, why: reason })
    },
  )

  test("five refusals of the token end it with code 3, and the log does not show the token", async () => {
    const agent = sessionAgent()
    const wrong = "wrong-token-0123456789"
    const { ended, log } = link({ url: agent.url, token: wrong })
    expect(await ended).toMatchObject({ code: 3 })
    expect(log.join("\n")).toContain("HTTP 401")
    expect(log.join("\n")).not.toContain(wrong)
  })

  test("503 is waited out", async () => {
    let refusals = 0
    const agent = sessionAgent({ refuse: () => ((refusals += 1) < 8 ? 503 : undefined) })
    const uplink = link(agent)
    uplink.send(numbered(0))
    await agent.frame("complete")
    expect(refusals).toBeGreaterThanOrEqual(8)
  })
})

describe.each([1, 2] as const)("with a session agent of protocol %i", (protocol) => {
  const timing = { welcomeMs: 30 }

  test("frames arrive in order, numbered only for one that counts", async () => {
    const agent = sessionAgent({ protocol })
    const uplink = link(agent, { timing })
    for (const index of upTo(500)) uplink.send(numbered(index))
    await agent.until(() => agent.frames.length >= 500, "500 frames")
    expect(numbersOf(agent)).toEqual(upTo(500))
    expect(agent.frames.every((frame) => "seq" in frame)).toBe(protocol === 2)
  })

  test("frames made while it was away come first and in order", async () => {
    const agent = sessionAgent({ protocol })
    const proxy = await proxyTo(agent)
    const uplink = link({ url: proxy.url, token: agent.token }, { timing })
    uplink.send(numbered(0))
    await agent.frame("complete")
    proxy.setDown(true)
    proxy.reset()
    // Away is what the runner knows of: a frame written into a dying socket is lost to one that does not count.
    await agent.until(() => uplink.state() !== "open", "the cut")
    for (let index = 1; index < 200; index += 1) uplink.send(numbered(index))
    proxy.setDown(false)
    await agent.until(() => agent.frames.length >= 200, "200 frames")
    expect(numbersOf(agent)).toEqual(upTo(200))
  })

  test("frames of a runner that died before it could connect are sent by the next one", async () => {
    const agent = sessionAgent({ protocol })
    const db = memoryDb()
    const first = link({ url: "ws://127.0.0.1:1/", token: "t" }, { store: openOutboxStore(db) })
    for (const index of upTo(50)) first.send(numbered(index))
    // Killed after its last commit: what it had stored is all that is left of it.
    await Promise.resolve()
    const second = link(agent, { store: openOutboxStore(db), timing })
    second.send(numbered(50))
    await agent.until(() => agent.frames.length >= 51, "51 frames")
    expect(numbersOf(agent)).toEqual(upTo(51))
  })

  test("a dead connection is noticed and replaced", async () => {
    const agent = sessionAgent({ protocol })
    const proxy = await proxyTo(agent)
    const uplink = link(
      { url: proxy.url, token: agent.token },
      { timing: { ...timing, pingMs: 80, pongMs: 50 } },
    )
    uplink.send(numbered(0))
    await agent.frame("complete")
    proxy.freeze()
    await agent.until(() => agent.connections() === 2, "the second connection")
    uplink.send(numbered(1))
    await agent.frame("complete", ({ messageId }) => messageId === "1")
  })

  test("a request is answered", async () => {
    const agent = sessionAgent({ protocol })
    const uplink = link(agent, { timing })
    const asked = uplink.request("memory-read", { query: "x" })
    const { requestId } = await agent.frame("memory-read")
    agent.say({ type: "memory-read-result", requestId, memories: [] })
    expect(await asked).toMatchObject({ memories: [] })
  })

  test("a request is asked again after a cut only of one that does not do it twice", async () => {
    const agent = sessionAgent({ protocol })
    const proxy = await proxyTo(agent)
    const uplink = link({ url: proxy.url, token: agent.token }, { timing })
    const asked = uplink.request("task-list", {})
    const { requestId } = await agent.frame("task-list")
    proxy.reset()
    await agent.until(() => uplink.counters().reconnects === 1, "the reconnect")
    uplink.send(numbered(0))
    await agent.frame("complete")
    const times = agent.frames.filter(({ type }) => type === "task-list").length
    expect(times).toBe(protocol)
    agent.say({ type: "task-list-result", requestId, tasks: [] })
    expect(await asked).toMatchObject({ tasks: [] })
  })
})

describe("a request", () => {
  test("survives a reconnect: asked again under the same id, answered once", async () => {
    const agent = sessionAgent()
    const proxy = await proxyTo(agent)
    const uplink = link({ url: proxy.url, token: agent.token })
    const asked = uplink.request("task-list", {})
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
    expect(await asked).toMatchObject({ tasks: [] })
    await agent.until(() => uplink.counters().unasked === 1, "the second answer to be dropped")
  })

  test("fails with the session agent's own words", async () => {
    const agent = sessionAgent()
    const uplink = link(agent)
    const asked = uplink.request("memory-delete", { memoryId: "m" })
    const { requestId } = await agent.frame("memory-delete")
    agent.say({ type: "memory-delete-result", requestId, error: "no such memory" })
    expect(asked).rejects.toMatchObject({ failure: "refused", message: "no such memory" })
  })

  test("that nobody answers fails at its deadline, and the late answer is dropped", async () => {
    const agent = sessionAgent()
    const clock = createManualClock()
    const uplink = link(agent, { clock })
    await agent.until(() => uplink.counters().framesIn > 0, "welcome")
    const asked = uplink.request("list-channels", {})
    const { requestId } = await agent.frame("list-channels")
    const failed = asked.catch((error: unknown) => error)
    clock.advance(15_000)
    expect(await failed).toMatchObject({ failure: "timeout" })
    agent.say({ type: "list-channels-result", requestId, channels: [] })
    await agent.until(() => uplink.counters().unasked === 1, "the late answer to be dropped")
  })

  test("without a link fails at its deadline, saying that nobody could be reached", async () => {
    const clock = createManualClock()
    const uplink = link({ url: "ws://127.0.0.1:1/", token: "t" }, { clock })
    const failed = uplink.request("list-channels", {}).catch((error: unknown) => error)
    clock.advance(15_000)
    expect(await failed).toMatchObject({ failure: "offline" })
  })

  test("that still waits when the runner stops fails with a clear error", async () => {
    const agent = sessionAgent()
    const uplink = link(agent)
    const failed = uplink.request("list-channels", {}).catch((error: unknown) => error)
    await agent.frame("list-channels")
    await uplink.stop(0)
    expect(await failed).toBeInstanceOf(RequestError)
    expect(await failed).toMatchObject({
      failure: "closing",
      message: "the runner is shutting down",
    })
  })
})

describe("at the bound of the outbox", () => {
  test("whoever makes frames waits until there is room", async () => {
    const agent = sessionAgent({ refuse: () => (open ? undefined : 503) })
    let open = false
    const uplink = link(agent, { maxBytes: 2000 })
    for (const index of upTo(100)) uplink.send(numbered(index))
    await Bun.sleep(1)
    const room = uplink.room()
    expect(room).toBeInstanceOf(Promise)
    expect(uplink.log.join("")).toContain("link.backlog-full")
    open = true
    await room
    await agent.until(() => agent.frames.length === 100, "100 frames")
    expect(uplink.room()).toBeUndefined()
  })
})

test("the first frame of every connection says who it is and what runs", async () => {
  const agent = sessionAgent()
  const active = [
    { messageId: "m", channelKey: "web:default", turnId: "t", opencodeSessionId: "ses" },
  ]
  link(agent, { active: () => active })
  await agent.until(() => agent.hellos.length === 1, "hello")
  expect(agent.hellos[0]).toMatchObject({
    protocol: 2,
    sessionId: "s",
    epoch: "e",
    nextSeq: 1,
    active,
  })
})

test("the first words of a part go out at once, later ones may travel together", async () => {
  const agent = sessionAgent()
  const uplink = link(agent)
  await agent.until(() => uplink.counters().framesIn > 0, "welcome")
  const word = (delta: string): OutboundFrame => ({
    type: "message.part.text-delta",
    turnId: "t",
    partId: "p",
    delta,
  })
  for (let index = 0; index < 2000; index += 1) uplink.send(word(`${index} `))
  await agent.until(
    () => agent.frames.some((frame) => "delta" in frame && frame.delta.includes("1999")),
    "the last word",
  )
  const said = agent.frames.flatMap((frame) => ("delta" in frame ? [frame.delta] : []))
  expect(said.join("")).toBe(
    upTo(2000)
      .map((index) => `${index} `)
      .join(""),
  )
  expect(uplink.counters().coalesced).toBeGreaterThan(0)
})
