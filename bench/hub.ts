/**
 * How old is a word when a client reads it? Many sessions with many clients each, on the hub of one machine and on the
 * same core in a Durable Object. Hub, clients and runners are processes of their own; all share this machine's cores.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { WebSocket } from "ws"
import { CLIENT_TOKEN } from "../test/hub/kit/hub.ts"
import { bundleWorker, startWorkerd } from "../test/hub/kit/workerd.ts"
import { say } from "./measure.ts"

const TOKEN = "runner-token-of-the-bench"
const SECONDS = 10
const here = (path: string) => join(import.meta.dir, path)

interface Load {
  readonly sessions: number
  readonly clients: number
  /** Words a second, over all sessions. */
  readonly rate: number
}

interface Result {
  readonly words: number
  readonly p50: number
  readonly p99: number
  readonly most: number
}

/** A runner that only streams: greets, answers the hub's barrier, and says the time, again and again. */
const startRunner = async (url: string, session: number) => {
  const address = `${url.replace(/^http/, "ws")}/sessions/s${session}/ws?role=runner&token=${TOKEN}`
  const socket = new WebSocket(address)
  let seq = 0
  const send = (frame: object) => {
    seq += 1
    socket.send(JSON.stringify({ ...frame, seq }))
  }
  const greeted = Promise.withResolvers<void>()
  socket.on("open", () => {
    const hello = { type: "hello", protocol: 2, runner: { name: "bench", version: "0" } }
    socket.send(
      JSON.stringify({ ...hello, sessionId: `s${session}`, epoch: "e", nextSeq: 1, active: [] }),
    )
  })
  socket.on("message", (data: Buffer) => {
    const frame = JSON.parse(data.toString()) as {
      type: string
      channelType?: string
      channelId?: string
    }
    if (frame.type !== "abort") return
    send({ ...frame, type: "aborted" })
    send({ type: "message.create", turnId: "t", messageId: "m" })
    send({ type: "message.part.text-delta", turnId: "t", partId: "p", delta: "0 " })
    greeted.resolve()
  })
  await greeted.promise
  return {
    word: () => {
      const made = (performance.timeOrigin + performance.now()).toFixed(2)
      send({ type: "message.part.text-delta", turnId: "t", partId: "p", delta: `${made} ` })
    },
    close: () => socket.close(),
  }
}

const measure = async (url: string, { sessions, clients, rate }: Load): Promise<Result> => {
  for (let session = 0; session < sessions; session += 1) {
    await fetch(`${url}/sessions/s${session}`, {
      method: "PUT",
      headers: { Authorization: `Bearer ${CLIENT_TOKEN}` },
      body: JSON.stringify({ runnerToken: TOKEN }),
    })
  }
  const runners = await Promise.all(
    Array.from({ length: sessions }, (_, index) => startRunner(url, index)),
  )
  const args = [url, CLIENT_TOKEN, String(sessions), String(clients)]
  const readers = Bun.spawn([process.execPath, here("sink/hub-clients.ts"), ...args], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  })
  const lines = readers.stdout.pipeThrough(new TextDecoderStream()).getReader()
  await lines.read()
  const started = performance.now()
  for (let made = 0; made < rate * SECONDS; made += 1) {
    const due = started + (made * 1000) / rate
    while (performance.now() < due) await Bun.sleep(1)
    runners[made % sessions]?.word()
  }
  await Bun.sleep(1000)
  void readers.stdin.write("end\n")
  await readers.stdin.end()
  const { value = "{}" } = await lines.read()
  for (const runner of runners) runner.close()
  return JSON.parse(value) as Result
}

const report = (host: string, load: Load, { words, p50, p99, most }: Result) => {
  const expected = load.rate * SECONDS * load.clients
  const all = words === expected ? "every word" : `${words} of ${expected} words`
  say(
    `${host}: ${load.sessions} sessions x ${load.clients} clients, ${load.rate.toLocaleString("en")} words/s`,
    `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, most ${most.toFixed(0)} ms, ${all}`,
  )
}

const onThisMachine = async (load: Load) => {
  const stateDir = await mkdtemp(join(tmpdir(), "bench-hub-"))
  const hub = Bun.spawn([process.execPath, here("../test/hub/kit/hub-program.ts"), stateDir, "0"], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  })
  const { value } = await hub.stdout.pipeThrough(new TextDecoderStream()).getReader().read()
  report("bun:sqlite", load, await measure(`http://127.0.0.1:${Number(value)}`, load))
  const status = await Bun.file(`/proc/${hub.pid}/status`).text()
  say(
    "bun:sqlite: peak RSS of the hub",
    `${(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024).toFixed(0)} MB`,
  )
  hub.kill("SIGKILL")
  await hub.exited
  await rm(stateDir, { recursive: true, force: true })
}

const inDurableObjects = async (load: Load) => {
  const workerd = await startWorkerd(await bundleWorker())
  report("workerd", load, await measure(workerd.url, load))
  await workerd.stop()
}

const loads: readonly Load[] = [
  { sessions: 1, clients: 1, rate: 50 },
  { sessions: 50, clients: 20, rate: 2000 },
]
for (const load of loads) {
  await onThisMachine(load)
  await inDurableObjects(load)
}
