/**
 * Time to deliver frames that were queued while the link was down, compared with an array in memory that is written to
 * the socket when it opens, without sequence numbers, disk and acknowledgements.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { WebSocket } from "ws"
import { systemClock } from "../src/lib/clock.ts"
import { openStateDb } from "../src/lib/state-db.ts"
import type { OutboundFrame } from "../src/wire/frames/index.ts"
import { openOutboxStore } from "../src/runner/link/outbox-store.ts"
import { createOutbox } from "../src/runner/link/outbox.ts"
import { createLink } from "../src/runner/link/link.ts"
import { say } from "./measure.ts"
import { silentLog } from "../test/kit/log.ts"

const frames = (count: number): OutboundFrame[] =>
  Array.from({ length: count }, (_, index) => ({
    type: "message.part.tool-update",
    turnId: "00000000-0000-4000-8000-000000000000",
    callId: `call_${index}`,
    toolName: "bash",
    status: "completed",
    result: `line ${index} of some output that a tool has printed`,
    messageId: "m1",
    channelType: "web",
    channelId: "default",
  }))

/** Counts frames; `all` resolves with the time of the last one. */
const startSink = (expected: number) => {
  const all = Promise.withResolvers<number>()
  let received = 0
  let inOrder = true
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request, self) =>
      self.upgrade(request, { data: undefined }) ? undefined : new Response(""),
    websocket: {
      message: (socket, data) => {
        const frame = JSON.parse(String(data)) as { type: string; seq?: number; callId?: string }
        if (frame.type === "hello") {
          socket.send('{"type":"welcome","protocol":2,"lastSeq":0}')
          return
        }
        if (frame.callId !== `call_${received}`) inOrder = false
        received += 1
        if (received % 100 === 0 || received === expected)
          socket.send(`{"type":"ack","seq":${frame.seq ?? 0}}`)
        if (received === expected) all.resolve(performance.now())
      },
    },
  })
  return {
    url: `ws://127.0.0.1:${server.port}/`,
    all: all.promise,
    ordered: () => inOrder,
    stop: () => server.stop(true),
  }
}

const ours = async (count: number) => {
  const stateDir = await mkdtemp(join(tmpdir(), "flush-"))
  const db = openStateDb(stateDir)
  const sink = startSink(count)
  const outbox = createOutbox({
    store: openOutboxStore(db),
    maxBytes: 1e9,
    onStoreFailure: () => {},
  })
  const queueing = performance.now()
  for (const [index, frame] of frames(count).entries()) {
    outbox.append(frame)
    if (index % 10 === 9) outbox.commit()
  }
  outbox.commit()
  const queued = performance.now() - queueing
  const link = createLink({
    url: sink.url,
    token: "t",
    sessionId: "s",
    version: "0",
    epoch: "e",
    outbox,
    clock: systemClock,
    log: silentLog,
    active: () => [],
    onFrame: () => {},
    onConnected: () => {},
    onEnd: () => {},
  })
  const started = performance.now()
  link.start()
  const took = (await sink.all) - started
  const ordered = sink.ordered()
  await link.stop(1000)
  await sink.stop()
  db.close()
  await rm(stateDir, { recursive: true, force: true })
  return { took, queued, ordered }
}

const plain = async (count: number) => {
  const sink = startSink(count)
  const lines = frames(count).map((frame) => JSON.stringify(frame))
  const started = performance.now()
  const socket = new WebSocket(sink.url)
  socket.on("open", () => {
    for (const line of lines) socket.send(line)
  })
  const took = (await sink.all) - started
  socket.terminate()
  await sink.stop()
  return took
}

await ours(1000)
await plain(1000)
for (const count of [10_000, 100_000]) {
  const simple = await plain(count)
  const { took, queued, ordered } = await ours(count)
  const rate = Math.round((count / took) * 1000).toLocaleString("en")
  say(
    `${count.toLocaleString("en")} frames from the outbox, in order: ${ordered}`,
    `${took.toFixed(0)} ms (${rate} frames/s), ${(took / simple).toFixed(2)} x the plain array (${simple.toFixed(0)} ms)`,
  )
  say("  storing them before, ten per commit", `${queued.toFixed(0)} ms`)
}
const rss = /VmHWM:\s+(\d+)/.exec(await Bun.file("/proc/self/status").text())?.[1]
say("peak RSS, both ends in one process", `${(Number(rss) / 1024).toFixed(0)} MB`)
