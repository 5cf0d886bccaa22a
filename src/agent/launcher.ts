/** Starts and stops the OpenCode process; nothing else spawns one. Healthy means: this process, with this password. */
import { closeSync, openSync } from "node:fs"
import { open } from "node:fs/promises"
import { createServer } from "node:net"
import { execa } from "execa"
import { type Clock, sleep } from "../lib/clock.ts"
import { describeError, type Log } from "../log.ts"
import { type AgentClient, createAgentClient } from "./client.ts"

class LaunchError extends Error {
  override readonly name = "LaunchError"
}

export interface LaunchOptions {
  readonly binary: string
  readonly url: URL
  readonly password: string
  readonly workDir: string
  readonly environment: Readonly<Record<string, string>>
  readonly logFile: string
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

export interface RunningAgent {
  readonly client: AgentClient
  readonly version: string
  readonly pid: number
  readonly url: string
  /** Resolves when the process is gone, however it went. */
  readonly exited: Promise<{ readonly why: string }>
  readonly stop: () => Promise<void>
}

const HEALTH_LIMIT_MS = 60_000
const HEALTH_POLL_MS = 50
const STOP_GRACE_MS = 5000

export const launchAgent = async (options: LaunchOptions): Promise<RunningAgent> => {
  const { clock, log, logFile } = options
  const port = options.url.port === "0" ? await freePort() : Number(options.url.port || 80)
  const hostname = options.url.hostname
  const url = `http://${hostname}:${port}`
  // A file of its own, not a pipe through this process: OpenCode's words outlive the runner. execa's types name
  // only the standard descriptors.
  const output = openSync(logFile, "a", 0o600) as 1
  const child = execa(options.binary, ["serve", "--hostname", hostname, "--port", String(port)], {
    cwd: options.workDir,
    env: { ...options.environment, OPENCODE_SERVER_PASSWORD: options.password },
    extendEnv: false,
    stdin: "ignore",
    stdout: output,
    stderr: output,
    buffer: false,
    reject: false,
    cleanup: false,
  })
  closeSync(output)
  let exitWords: string | undefined
  const exited = child.then((result) => {
    exitWords = result.signal ? `killed by ${result.signal}` : `exited with code ${result.exitCode}`
    return { why: exitWords }
  })
  const stop = async () => {
    child.kill("SIGTERM")
    const cancel = clock.after(STOP_GRACE_MS, () => child.kill("SIGKILL"))
    await exited
    cancel()
  }
  const client = createAgentClient({ url, password: options.password, directory: options.workDir })
  try {
    const version = await waitForHealth(client, options, () => exitWords)
    await client.checkConfig()
    log.info("agent.healthy", { version, pid: child.pid, url })
    return { client, version, pid: child.pid ?? 0, url, exited, stop }
  } catch (error) {
    await stop()
    const tail = await lastLines(logFile)
    throw new LaunchError(`OpenCode did not start: ${describeError(error)}${tail}`, {
      cause: error,
    })
  }
}

const waitForHealth = async (
  client: AgentClient,
  { clock, signal }: LaunchOptions,
  exitWords: () => string | undefined,
): Promise<string> => {
  const until = clock.now() + HEALTH_LIMIT_MS
  let last: unknown
  while (clock.now() < until) {
    signal.throwIfAborted()
    const ended = exitWords()
    if (ended !== undefined) throw new LaunchError(ended)
    try {
      return (await client.health()).version
    } catch (error) {
      last = error
    }
    await sleep(clock, HEALTH_POLL_MS, signal)
  }
  throw new LaunchError(`not healthy within ${HEALTH_LIMIT_MS / 1000} s`, { cause: last })
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address ? address.port : 0
      server.close(() => resolve(port))
    })
  })

const TAIL_BYTES = 2000

const lastLines = async (path: string): Promise<string> => {
  const file = await open(path, "r")
  try {
    const { size } = await file.stat()
    const start = Math.max(0, size - TAIL_BYTES)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(TAIL_BYTES), 0, TAIL_BYTES, start)
    const text = buffer.toString("utf8", 0, bytesRead).trim()
    return text === "" ? "" : `\nits last words:\n${text}`
  } finally {
    await file.close()
  }
}
