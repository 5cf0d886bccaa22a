/** Starts one OpenCode process, and leaves word of it for a runner that comes after. It has read no configuration yet. */
import { chmodSync, closeSync, openSync } from "node:fs"
import { rename } from "node:fs/promises"
import { execa } from "execa"
import { MARK } from "./terminate.ts"
import { LaunchError } from "./launch-error.ts"
import type { AgentUser, Processes } from "./interfaces.ts"
import type { RunRecord, RunRecordFile } from "./run-record.ts"

export interface SpawnOptions {
  readonly hostname: string
  readonly workDir: string
  readonly logFile: string
  readonly record: RunRecordFile
  readonly processes: Processes
  readonly user: AgentUser | undefined
}

/** What a process keeps for its life; everything else it can be given later. */
export interface ProcessOrder {
  readonly binary: string
  readonly version: string
  readonly startHash: string
  /** Given by the operator; else one is made for each process. */
  readonly password: string | undefined
  readonly environment: Readonly<Record<string, string>>
  /** Makes the directories that OpenCode finds at its start. */
  readonly makeRoom: () => Promise<void>
}

export interface Spawned {
  readonly entry: RunRecord
  /** How it ended, if it did. */
  readonly end: () => string | undefined
  readonly exited: Promise<{ readonly why: string }>
}

export const spawnAgent = async (
  order: ProcessOrder,
  port: number,
  options: SpawnOptions,
): Promise<Spawned> => {
  const password = order.password ?? crypto.randomUUID()
  const mark = crypto.randomUUID()
  // The log of the one before is kept for whoever looks into its end; two files are all there ever are.
  await rename(options.logFile, `${options.logFile}.1`).catch(() => {})
  const child = spawn(order, { port, password, mark }, options)
  const identity = child.pid === undefined ? undefined : options.processes.find(child.pid)
  let end: string | undefined
  const exited = child.then((result) => {
    end = endOf(result)
    return { why: `OpenCode ${end}` }
  })
  if (!identity) throw new LaunchError("exit", `${(await exited).why} at once`)
  const entry: RunRecord = {
    pid: identity.pid,
    startTime: identity.startTime,
    url: `http://${options.hostname}:${port}`,
    password,
    mark,
    version: order.version,
    // None that could be wanted: whoever finds it so ends it.
    hash: "",
    startHash: order.startHash,
  }
  await options.record.write(entry)
  return { entry, end: () => end, exited }
}

const spawn = (
  order: ProcessOrder,
  { port, password, mark }: { port: number; password: string; mark: string },
  { hostname, workDir, logFile, user }: SpawnOptions,
) => {
  // A file of its own, not a pipe through this process: OpenCode outlives the runner. Appending, so that the file
  // can be cut while it is written to. execa's types name only the standard descriptors.
  const output = openSync(logFile, "a", 0o600) as 1
  chmodSync(logFile, 0o600)
  const flags = ["--hostname", hostname, "--port", String(port)]
  const child = execa(order.binary, ["serve", ...flags, "--print-logs", "--log-level", "WARN"], {
    cwd: workDir,
    env: { ...order.environment, OPENCODE_SERVER_PASSWORD: password, [MARK]: mark },
    extendEnv: false,
    stdin: "ignore",
    stdout: output,
    stderr: output,
    buffer: false,
    reject: false,
    // A session of its own: a signal to the runner's group, or the runner's end, is not OpenCode's end.
    detached: true,
    cleanup: false,
    ...(user && { uid: user.uid, gid: user.gid }),
  })
  closeSync(output)
  return child
}

const endOf = (result: {
  signal?: string | undefined
  exitCode?: number | undefined
  shortMessage?: string | undefined
}): string => {
  if (result.signal !== undefined) return `was killed by ${result.signal}`
  if (result.exitCode !== undefined) return `exited with code ${result.exitCode}`
  return `could not be run (${result.shortMessage ?? "unknown"})`
}
