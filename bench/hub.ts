/**
 * Age of a text delta when a client reads it, with many sessions and many clients per session: on the hub of one machine
 * and on the same session code in a Durable Object. Hub, clients and runners are separate processes on the same cores.
 */
import { existsSync, readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { WebSocket } from "ws"
import { CLIENT_TOKEN } from "../test/hub/kit/hub.ts"
import { bundleWorker } from "../test/hub/kit/workerd.ts"
import { say } from "./measure.ts"
import { startPlainWorkerd } from "./sink/workerd.ts"

const TOKEN = "runner-token-of-the-bench"
const SECONDS = 10
const here = (path: string) => join(import.meta.dir, path)

interface Load {
  readonly sessions: number
  readonly clients: number
  /** Deltas per second, over all sessions. */
  readonly rate: number
}

/** Hub processes that share the sessions. */
interface Hosts {
  readonly name: string
  readonly urls: readonly string[]
  readonly pids: readonly number[]
}

interface Result {
  readonly deltas: number
  readonly frames: number
  readonly p50: number
  readonly p99: number
  readonly most: number
}

/** A fake runner: sends hello, confirms the hub's initial abort, then sends deltas that contain the current time. */
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
    sendDelta: () => {
      const made = (performance.timeOrigin + performance.now()).toFixed(2)
      send({ type: "message.part.text-delta", turnId: "t", partId: "p", delta: `${made} ` })
    },
    close: () => socket.close(),
  }
}

/** Processor time in seconds of one process; `spentByAll` is that of the whole machine. */
const spentBy = (pid: number): number => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[11]) + Number(fields[12])) / 100
}
const spentByAll = (): number => {
  const [, user, nice, system, , , interrupts, soft] = (
    readFileSync("/proc/stat", "utf8").split("\n", 1)[0] ?? ""
  ).split(/\s+/)
  return [user, nice, system, interrupts, soft].reduce((sum, part) => sum + Number(part), 0) / 100
}

/** Measures processor use until the returned function is called, in percent of one core. */
const watchProcessors = (hosts: Hosts, readers: number) => {
  const ours = [...hosts.pids, readers, process.pid]
  const before = ours.map(spentBy)
  const [allBefore, started] = [spentByAll(), performance.now()]
  return () => {
    const seconds = (performance.now() - started) / 1000
    const share = (spent: number) => ((100 * spent) / seconds).toFixed(0)
    const spent = ours.map((pid, index) => spentBy(pid) - (before[index] ?? 0))
    const others = spentByAll() - allBefore - spent.reduce((sum, part) => sum + part, 0)
    const hub = spent.slice(0, -2).map(share).join(" + ")
    const [clients = 0, runners = 0] = spent.slice(-2)
    return `hub ${hub} %, clients ${share(clients)} %, runners ${share(runners)} %, others ${share(others)} %`
  }
}

const measure = async (hosts: Hosts, load: Load): Promise<void> => {
  const { sessions, clients, rate } = load
  const urlOf = (session: number) => hosts.urls[session % hosts.urls.length] ?? ""
  for (let session = 0; session < sessions; session += 1) {
    await fetch(`${urlOf(session)}/sessions/s${session}`, {
      method: "PUT",
      headers: { Authorization: `Bearer ${CLIENT_TOKEN}` },
      body: JSON.stringify({ runnerToken: TOKEN }),
    })
  }
  const runners = await Promise.all(
    Array.from({ length: sessions }, (_, index) => startRunner(urlOf(index), index)),
  )
  const args = [hosts.urls.join(","), CLIENT_TOKEN, String(sessions), String(clients)]
  const readers = Bun.spawn([process.execPath, here("sink/hub-clients.ts"), ...args], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  })
  const lines = readers.stdout.pipeThrough(new TextDecoderStream()).getReader()
  await lines.read()
  const processors = watchProcessors(hosts, readers.pid)
  const started = performance.now()
  for (let made = 0; made < rate * SECONDS; made += 1) {
    const due = started + (made * 1000) / rate
    while (performance.now() < due) await Bun.sleep(1)
    runners[made % sessions]?.sendDelta()
  }
  const used = processors()
  await Bun.sleep(1000)
  void readers.stdin.write("end\n")
  await readers.stdin.end()
  const { value = "{}" } = await lines.read()
  for (const runner of runners) runner.close()
  report(hosts.name, load, JSON.parse(value) as Result, used)
}

const report = (host: string, load: Load, result: Result, used: string) => {
  const { deltas, frames, p50, p99, most } = result
  const expected = load.rate * SECONDS * load.clients
  const received = deltas === expected ? "every delta" : `${deltas} of ${expected} deltas`
  say(
    `${host}: ${load.sessions} sessions x ${load.clients} clients, ${load.rate.toLocaleString("en")} deltas/s`,
    `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, maximum ${most.toFixed(0)} ms, ${received}`,
  )
  say("", `${(deltas / frames).toFixed(2)} deltas per frame; processors: ${used}`)
}

const onThisMachine = async (load: Load) => {
  const stateDir = await mkdtemp(join(tmpdir(), "bench-hub-"))
  const hub = Bun.spawn([process.execPath, here("../test/hub/kit/hub-program.ts"), stateDir, "0"], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  })
  const { value } = await hub.stdout.pipeThrough(new TextDecoderStream()).getReader().read()
  const urls = [`http://127.0.0.1:${Number(value)}`]
  await measure({ name: "bun:sqlite", urls, pids: [hub.pid] }, load)
  const status = readFileSync(`/proc/${hub.pid}/status`, "utf8")
  say(
    "bun:sqlite: peak RSS of the hub",
    `${(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024).toFixed(0)} MB`,
  )
  hub.kill("SIGKILL")
  await hub.exited
  await rm(stateDir, { recursive: true, force: true })
}

/** One workerd process runs all its objects in one thread; a deployment has many of them. */
const inDurableObjects = async (load: Load, count: number, rows: "disk" | "memory") => {
  const folder = rows === "memory" && existsSync("/dev/shm") ? "/dev/shm" : tmpdir()
  const script = await bundleWorker()
  const started = await Promise.all(
    Array.from({ length: count }, () => startPlainWorkerd(script, folder)),
  )
  const name = `workerd x ${count}, rows ${rows === "disk" ? "on disk" : "in memory"}`
  const urls = started.map(({ url }) => url)
  await measure({ name, urls, pids: started.map(({ pid }) => pid) }, load)
  for (const workerd of started) await workerd.stop()
}

const small: Load = { sessions: 1, clients: 1, rate: 50 }
const big: Load = { sessions: 50, clients: 20, rate: 2000 }
await onThisMachine(small)
await inDurableObjects(small, 1, "disk")
await onThisMachine(big)
await inDurableObjects(big, 1, "disk")
// workerd waits for the disk at every commit in its only thread; bun:sqlite leaves the flush to the kernel.
await inDurableObjects(big, 1, "memory")
await inDurableObjects(big, 2, "disk")
await inDurableObjects(big, 2, "memory")
