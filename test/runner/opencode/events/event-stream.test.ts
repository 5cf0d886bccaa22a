/** The event stream against a server that cuts the connection, repeats events, stalls and sends garbage. */
import { afterEach, describe, expect, test } from "bun:test"
import { createAgentClient } from "../../../../src/runner/opencode/client/client.ts"
import { runEventStream } from "../../../../src/runner/opencode/events/event-stream.ts"
import type { AgentEvent } from "../../../../src/runner/opencode/events/events.ts"
import { systemClock } from "../../../../src/lib/clock.ts"
import { createLog } from "../../../../src/lib/log.ts"
import { untilTrue } from "../../../kit/until-true.ts"

const event = (type: string, properties: unknown, id?: string) => ({
  payload: { type, properties, ...(id !== undefined && { id }) },
})
const connected = event("server.connected", {})
const idle = (sessionID: string, id?: string) => event("session.idle", { sessionID }, id)
const title = (sessionID: string, text: string) => ({
  sessionID,
  info: { id: sessionID, title: text },
})
const sync = (sessionID: string, seq: number, text: string) => ({
  payload: {
    type: "sync",
    syncEvent: {
      id: `evt_${sessionID}_${seq}`,
      type: "session.updated.1",
      seq,
      aggregateID: sessionID,
      data: title(sessionID, text),
    },
  },
})
const durable = (sessionID: string, seq: number, text: string) => ({
  id: `evt_${sessionID}_${seq}`,
  aggregate_id: sessionID,
  seq,
  type: "session.updated.1",
  data: title(sessionID, text),
})

interface Subscription {
  readonly path: string
  readonly send: (...frames: readonly unknown[]) => void
  readonly sendRaw: (text: string) => void
  readonly cut: () => void
}

const running: (() => void)[] = []
afterEach(() => {
  for (const stop of running.splice(0)) stop()
})

/** A fake OpenCode whose streams the test controls, and a subscription to it. */
const start = (
  options: { silenceMs?: number; global?: boolean; history?: readonly unknown[] } = {},
) => {
  const subscriptions: Subscription[] = []
  const historyRequests: unknown[] = []
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      if (pathname === "/session") return Response.json([{ id: "s1" }, { id: "never-seen" }])
      if (pathname === "/sync/history") {
        historyRequests.push(await request.json())
        return Response.json(options.history ?? [])
      }
      if (pathname === "/global/event" && options.global === false) {
        return new Response("<html>", { headers: { "content-type": "text/html" } })
      }
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
      const writer = writable.getWriter()
      const sendRaw = (text: string) =>
        void writer.write(new TextEncoder().encode(text)).catch(() => {})
      subscriptions.push({
        path: pathname,
        sendRaw,
        send: (...frames) => {
          for (const frame of frames) sendRaw(`data: ${JSON.stringify(frame)}\n\n`)
        },
        cut: () => void writer.abort().catch(() => {}),
      })
      return new Response(readable, { headers: { "content-type": "text/event-stream" } })
    },
  })
  const events: AgentEvent[] = []
  const notices: ("subscribed" | "gap")[] = []
  /** The number of events delivered before each `onFirstEvent`. */
  const firsts: number[] = []
  const lines: string[] = []
  const over = new AbortController()
  const client = createAgentClient({
    url: `http://127.0.0.1:${server.port}`,
    password: "x",
    directory: "/",
  })
  const write = (line: string) => void lines.push(line)
  const log = createLog({ level: "debug", format: "json", secrets: [], write, now: Date.now })
  const run = runEventStream(
    {
      client,
      clock: systemClock,
      log,
      onEvent: (one) => void events.push(one),
      onSubscribed: () => void notices.push("subscribed"),
      onStreamGap: () => void notices.push("gap"),
      onFirstEvent: () => void firsts.push(events.length),
      backpressure: () => undefined,
      ...(options.silenceMs !== undefined && { silenceMs: options.silenceMs }),
    },
    over.signal,
  )
  running.push(() => {
    over.abort()
    void server.stop(true)
  })
  const until = (condition: () => boolean) =>
    untilTrue(condition, () => `true condition:\n${lines.join("\n")}\n`)
  const subscription = async (count: number): Promise<Subscription> => {
    await until(() => subscriptions.length >= count)
    const found = subscriptions[count - 1]
    if (!found) throw new Error("unreachable")
    return found
  }
  return { subscription, events, notices, firsts, lines, historyRequests, until, over, run }
}

const titles = (events: readonly AgentEvent[]) =>
  events.flatMap((one) => (one.type === "session" ? [one.title] : []))

test("events are delivered in order, and an event with a durable copy only once", async () => {
  const { subscription, events, notices, until } = start()
  const first = await subscription(1)
  first.send(connected, event("session.updated", title("s1", "a"), "evt_s1_0"), sync("s1", 0, "a"))
  first.send(sync("s1", 1, "only durable"), idle("s1", "evt_9"), idle("s1", "evt_9"))
  await until(() => events.length >= 3)
  expect(events.map(({ type }) => type)).toEqual(["session", "session", "idle"])
  expect(titles(events)).toEqual(["a", "only durable"])
  expect(notices).toEqual(["subscribed"])
})

test("onFirstEvent is called for each connection before its first event is delivered", async () => {
  const { subscription, events, firsts, notices, until } = start()
  const first = await subscription(1)
  first.send(connected)
  await until(() => notices.includes("subscribed"))
  expect(firsts).toEqual([])
  first.send(idle("s1"), idle("s2"))
  await until(() => events.length === 2)
  expect(firsts).toEqual([0])
  first.cut()
  const second = await subscription(2)
  second.send(connected, event("server.heartbeat", {}), idle("s3"))
  await until(() => events.length === 4)
  expect(firsts).toEqual([0, 2])
})

describe("a lost connection", () => {
  test("a cut connection is opened again, missed durable events are delivered and a gap is reported", async () => {
    const history = [durable("s1", 1, "known already"), durable("s1", 2, "missed")]
    const { subscription, events, notices, historyRequests, until } = start({ history })
    const first = await subscription(1)
    first.send(connected, sync("s1", 0, "a"))
    first.send(event("session.updated", title("s1", "known already"), "evt_s1_1"))
    await until(() => events.length === 2)
    first.cut()
    const second = await subscription(2)
    second.send(connected, sync("s1", 3, "after"))
    await until(() => events.length === 4)
    expect(titles(events)).toEqual(["a", "known already", "missed", "after"])
    expect(notices).toEqual(["subscribed", "subscribed", "gap"])
    // A session without events is listed with the highest number, else OpenCode would return its whole history.
    expect(historyRequests).toEqual([{ s1: 0, "never-seen": Number.MAX_SAFE_INTEGER }])
  })

  test("a missing sequence number is reported as a gap, and the missed event is delivered", async () => {
    const { subscription, events, notices, until } = start({
      history: [durable("s1", 1, "missed")],
    })
    const first = await subscription(1)
    first.send(connected, sync("s1", 0, "a"), sync("s1", 2, "b"))
    await until(() => events.length === 3)
    expect(titles(events)).toEqual(["a", "missed", "b"])
    expect(notices).toEqual(["subscribed", "gap"])
  })

  test("a silent connection is replaced by a new one", async () => {
    const { subscription, notices, until } = start({ silenceMs: 150 })
    const first = await subscription(1)
    first.send(connected)
    const second = await subscription(2)
    second.send(connected)
    await until(() => notices.length === 3)
    expect(notices).toEqual(["subscribed", "subscribed", "gap"])
  })
})

describe("an unusable frame", () => {
  test("malformed and unknown frames are skipped and counted, and later events are delivered", async () => {
    const { subscription, events, lines, until } = start()
    const first = await subscription(1)
    first.send(connected)
    first.sendRaw("data: {not json\n\n")
    first.send(event("message.updated", { info: 7 }), event("no.such", {}), event("no.such", {}))
    first.send(idle("s1"))
    await until(() => events.length === 1)
    expect(lines.filter((line) => line.includes("agent.event-malformed"))).toHaveLength(2)
    expect(lines.filter((line) => line.includes("agent.event-unknown"))).toHaveLength(1)
  })

  test("a frame of 20 MiB is delivered, and a frame over 32 MiB causes a reconnect", async () => {
    const { subscription, events, until } = start()
    const first = await subscription(1)
    first.send(connected, event("session.updated", title("s1", "x".repeat(20 * 1024 * 1024))))
    await until(() => events.length === 1)
    for (let sent = 0; sent < 34; sent += 1)
      first.sendRaw(sent === 0 ? "data: " : "y".repeat(1024 * 1024))
    const second = await subscription(2)
    second.send(connected, idle("s1"))
    await until(() => events.length === 2)
  })
})

test("an OpenCode without /global/event is read from /event", async () => {
  const { subscription, events, until } = start({ global: false })
  const first = await subscription(1)
  expect(first.path).toBe("/event")
  first.send({ type: "server.connected", properties: {} })
  first.send({ type: "session.idle", properties: { sessionID: "s1" } })
  await until(() => events.length === 1)
})

test("the stream ends when its signal aborts", async () => {
  const { subscription, over, run } = start()
  const first = await subscription(1)
  first.send(connected)
  over.abort()
  await run
})
