/**
 * Throughput and latency of text deltas from OpenCode's event stream to frames on the link, with the outbox on disk and
 * without. A fake OpenCode produces the deltas; the bench checks that every delta arrives unchanged.
 */
import { Database } from "bun:sqlite"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createAgentClient } from "../src/runner/opencode/client/client.ts"
import { runEventStream } from "../src/runner/opencode/events/event-stream.ts"
import { createIdMint } from "../src/runner/opencode/client/ids.ts"
import { openChannelStore } from "../src/runner/channels/channel-store.ts"
import { createChannels } from "../src/runner/channels/channels.ts"
import { openJobStore } from "../src/runner/channels/job-store.ts"
import { systemClock } from "../src/lib/clock.ts"
import { openStateDb } from "../src/lib/state-db.ts"
import { createLog } from "../src/lib/log.ts"
import { openOutboxStore } from "../src/runner/link/outbox-store.ts"
import { createOutbox, type OutboxStore } from "../src/runner/link/outbox.ts"
import { createLink } from "../src/runner/link/link.ts"
import { percentile, say } from "./measure.ts"

const here = (path: string) => join(import.meta.dir, path)
const BURST = 300_000
/** A long answer of a model: about 350 KB. */
const LONG = 20_000
const PACED = 500
const RATE = 50

const startProgram = async (path: string) => {
  const child = Bun.spawn([process.execPath, here(path)], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  })
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  let buffered = ""
  const line = async (): Promise<string> => {
    while (!buffered.includes("\n")) {
      const { value, done } = await reader.read()
      if (done) throw new Error(`${path} ended`)
      buffered += value
    }
    const end = buffered.indexOf("\n")
    const text = buffered.slice(0, end)
    buffered = buffered.slice(end + 1)
    return text
  }
  return { port: Number(await line()), line, stop: () => child.kill("SIGKILL") }
}

const discardingStore: OutboxStore = {
  load: () => ({ headSeq: 1, lines: [] }),
  append: () => {},
  rewrite: () => {},
}

const peakRssMb = async () => {
  const status = await Bun.file("/proc/self/status").text()
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024
}

const measure = async (kind: "on disk" | "off") => {
  const opencode = await startProgram("../test/kit/fake-opencode.ts")
  const sink = await startProgram("sink/session-agent.ts")
  const stateDir = await mkdtemp(join(tmpdir(), "throughput-"))
  const db = kind === "on disk" ? openStateDb(stateDir) : new Database(":memory:")
  const log = createLog({
    level: "error",
    format: "pretty",
    secrets: [],
    write: () => {},
    now: Date.now,
  })
  const client = createAgentClient({
    url: `http://127.0.0.1:${opencode.port}`,
    password: "unused",
    directory: "/w",
  })
  const connected = Promise.withResolvers<void>()
  const subscribed = Promise.withResolvers<void>()
  const uplink = createLink({
    url: `ws://127.0.0.1:${sink.port}/`,
    token: "t",
    sessionId: "bench",
    version: "0",
    epoch: kind,
    outbox: createOutbox({
      store:
        kind === "on disk"
          ? openOutboxStore(db, {
              write: () => channels.persist(),
              done: () => channels.persisted(),
            })
          : discardingStore,
      maxBytes: 64 * 1024 * 1024,
      onStoreFailure: (error) => {
        throw error
      },
    }),
    clock: systemClock,
    log,
    active: () => [],
    onFrame: () => {},
    onConnected: () => connected.resolve(),
    onEnd: () => {},
  })
  const mint = createIdMint(Date.now)
  const channels = createChannels({
    sessions: openChannelStore(db),
    jobs: openJobStore(db),
    clock: systemClock,
    log,
    mint,
    send: uplink.send,
    prepare: async ({ content }) => ({
      body: { messageID: mint("msg"), parts: [{ type: "text", id: mint("prt"), text: content }] },
      models: ["fake/m"],
    }),
  })
  const stop = new AbortController()
  void runEventStream(
    {
      client,
      clock: systemClock,
      log,
      onEvent: channels.agentEvent,
      onSubscribed: () => subscribed.resolve(),
      onStreamGap: () => {},
      onFirstEvent: () => {},
      backpressure: uplink.room,
    },
    stop.signal,
  )
  uplink.start()
  await Promise.all([connected.promise, subscribed.promise])
  channels.agentReady({ client, defaultModel: "fake/m" })

  const ask = async (messageId: string, content: string) => {
    channels.take({ type: "prompt", messageId, content })
    return JSON.parse(await sink.line()) as {
      deltas: number
      exact: boolean
      ms: number
      ages: number[]
      frames: number
    }
  }
  const paced = await ask("paced", `deltas=${PACED} rate=${RATE}`)
  const long = await ask("long", `deltas=${LONG} rate=0`)
  const rss = await peakRssMb()
  const burst = await ask("burst", `deltas=${BURST} rate=0`)
  const rssAfter = await peakRssMb()
  stop.abort()
  await uplink.stop(100)
  opencode.stop()
  sink.stop()
  db.close()
  await rm(stateDir, { recursive: true, force: true })
  const { frames, ms } = burst
  const rate = Math.round((BURST / ms) * 1000)
  say(
    `outbox ${kind}: ${BURST.toLocaleString("en")} deltas flat out`,
    `${rate.toLocaleString("en")} deltas/s in ${frames.toLocaleString("en")} frames, ${exactly(burst)}`,
  )
  say(
    `outbox ${kind}: ${RATE} deltas/s, age on arrival`,
    `p50 ${percentile(paced.ages, 0.5).toFixed(2)} ms, p99 ${percentile(paced.ages, 0.99).toFixed(2)} ms, ${exactly(paced)}`,
  )
  say(
    `outbox ${kind}: peak RSS of the runner's side, ${LONG.toLocaleString("en")} deltas`,
    `${rss.toFixed(0)} MB, ${exactly(long)} (after ${BURST.toLocaleString("en")}: ${rssAfter.toFixed(0)} MB)`,
  )
}

const exactly = ({ exact }: { exact: boolean }) => (exact ? "every one exact" : "NOT EXACT")

/** The lower bound: a plain client that reads the same stream and does nothing with it. */
const direct = async () => {
  const opencode = await startProgram("../test/kit/fake-opencode.ts")
  const url = `http://127.0.0.1:${opencode.port}`
  const { id } = (await (await fetch(`${url}/session`, { method: "POST" })).json()) as {
    id: string
  }
  const response = await fetch(`${url}/global/event`)
  const decoder = new TextDecoder()
  const ages: number[] = []
  const body = { messageID: "m", parts: [{ text: `deltas=${PACED} rate=${RATE}` }] }
  const posting = fetch(`${url}/session/${id}/prompt_async`, {
    method: "POST",
    body: JSON.stringify(body),
  })
  for await (const chunk of response.body ?? []) {
    const text = decoder.decode(chunk, { stream: true })
    const now = performance.timeOrigin + performance.now()
    for (const match of text.matchAll(/"delta":"([\d.]+) "/g)) ages.push(now - Number(match[1]))
    if (text.includes("session.idle")) break
  }
  await posting
  opencode.stop()
  say(
    `a plain reader of the same stream: ${RATE} deltas/s, age on arrival`,
    `p50 ${percentile(ages, 0.5).toFixed(2)} ms, p99 ${percentile(ages, 0.99).toFixed(2)} ms`,
  )
}

const only = process.argv[2]
if (only === "on disk" || only === "off") await measure(only)
else {
  await direct()
  // One process per case, so that the memory of one case is not counted for the other.
  for (const kind of ["off", "on disk"]) {
    await Bun.spawn([process.execPath, import.meta.path, kind], {
      stdio: ["ignore", "inherit", "inherit"],
    }).exited
  }
}
