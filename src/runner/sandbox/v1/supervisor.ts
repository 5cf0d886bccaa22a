/**
 * The runner's side of the `/v1` server: starts it as the agent's user with the first request, and again after it was
 * killed. The server ends when its standard input closes, so it does not outlive the runner.
 */
import { parseJson } from "../../../lib/json.ts"
import { randomBytes } from "node:crypto"
import { z } from "zod"
import { type Clock, within } from "../../../lib/clock.ts"
import { describeError, type Log } from "../../../lib/log.ts"
import { parseLimitedJson } from "../../../wire/json-limits.ts"
import { type FormerProcesses, formerProcesses } from "./former-processes.ts"
import type { ServerOrder } from "./server.ts"

export interface V1SupervisorOptions {
  /** The command that starts this program. */
  readonly self: readonly string[]
  /** The workspace. */
  readonly root: string
  /** The agent's user; undefined for the runner's own. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined
  /** The environment of the programs that requests start. */
  readonly environment: () => Readonly<Record<string, string>>
  /** The running background processes, which end with the server: the next one lists them as exited. */
  readonly memory: {
    readonly read: () => string | undefined
    readonly write: (text: string) => void
  }
  readonly clock: Clock
  readonly log: Log
}

export interface V1Address {
  readonly port: number
  readonly token: string
}

export interface V1Supervisor {
  /** Resolves when the server listens; to undefined if it cannot be started. */
  readonly address: () => Promise<V1Address | undefined>
  /** The port while the server runs. */
  readonly port: () => number | undefined
  readonly pid: () => number | undefined
  readonly stop: () => Promise<void>
}

const START_MS = 10_000
/** Bun collects garbage as on a machine of this size: a large transfer then keeps few used buffers. */
const HEAP_HINT_BYTES = 64 * 1024 * 1024
const STOP_MS = 1000
const announcement = z.object({ port: z.int() })
const processReport = z.object({ processes: formerProcesses })
const NONE: FormerProcesses = { started: 0, running: [] }
/** Far above any report; the server runs as the agent's user. */
const LONGEST_LINE = 8 * 1024 * 1024

type Child = Bun.Subprocess<"pipe", "pipe", "inherit">

interface Running {
  readonly child: Child
  readonly address: Promise<V1Address | undefined>
  port: number | undefined
}

export const createV1Supervisor = (options: V1SupervisorOptions): V1Supervisor => {
  const { clock, log, user } = options
  const mark = crypto.randomUUID()
  let running: Running | undefined
  let isStopped = false

  const start = (): Running => {
    const token = randomBytes(32).toString("hex")
    const child = Bun.spawn([...options.self, "sandbox-server"], {
      env: {
        PATH: options.environment()["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
        BUN_JSC_forceRAMSize: String(HEAP_HINT_BYTES),
      },
      cwd: "/",
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
      detached: true,
      ...(user && { uid: user.uid, gid: user.gid }),
    })
    const order: ServerOrder = {
      token,
      root: options.root,
      mark,
      environment: { ...options.environment() },
      former: formerProcesses.safeParse(parseJson(options.memory.read() ?? "")).data ?? NONE,
    }
    void child.stdin.write(`${JSON.stringify(order)}\n`)
    void child.stdin.flush()
    const entry: Running = { child, address: listening(child, token), port: undefined }
    void awaitEnd(entry)
    return entry
  }
  const listening = async (child: Child, token: string): Promise<V1Address | undefined> => {
    const lines = linesOf(child.stdout)
    const line = lines.next().then(({ value }) => value ?? "")
    if (!(await within(clock, START_MS, line))) {
      child.kill("SIGKILL")
      log.error("v1.not-started", { why: "it did not listen in time" })
      return undefined
    }
    const announced = announcement.safeParse(parseLimitedJson(await line))
    if (!announced.success) {
      log.error("v1.not-started", { why: "it ended before it listened" })
      return undefined
    }
    if (running?.child === child) running.port = announced.data.port
    void storeProcesses(lines)
    return { port: announced.data.port, token }
  }
  const storeProcesses = async (lines: AsyncGenerator<string>) => {
    for await (const text of lines) {
      const report = processReport.safeParse(parseLimitedJson(text))
      // When the runner stops, the ends of its processes must not be stored as if they had been seen.
      if (report.success && !isStopped) options.memory.write(JSON.stringify(report.data.processes))
    }
  }
  const awaitEnd = async (entry: Running) => {
    const code = await entry.child.exited
    if (running === entry) running = undefined
    if (!isStopped) log.warn("v1.ended", { code })
  }

  return {
    address: async () => {
      if (isStopped) return undefined
      try {
        running ??= start()
        return await running.address
      } catch (error) {
        log.error("v1.not-started", { why: describeError(error) })
        return undefined
      }
    },
    port: () => running?.port,
    pid: () => running?.child.pid,
    stop: async () => {
      isStopped = true
      const child = running?.child
      if (child === undefined) return
      await child.stdin.end()
      if (!(await within(clock, STOP_MS, child.exited))) child.kill("SIGKILL")
    },
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let text = ""
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true })
    const lines = text.split("\n")
    text = lines.pop() ?? ""
    yield* lines
    if (text.length > LONGEST_LINE) return
  }
}
