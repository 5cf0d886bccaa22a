/** The only place that spawns OpenCode. Writes the run record; the process has not read its configuration yet. */
import { chmodSync, closeSync, openSync } from "node:fs"
import { rename } from "node:fs/promises"
import type { execa as Execa } from "execa"
import { RUN_MARK_VARIABLE } from "./terminate.ts"
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

/** What is fixed when the process starts; everything else can be changed later. */
export interface ProcessSpec {
  readonly binary: string
  readonly version: string
  readonly startHash: string
  /** Set by the operator; else each process gets a random one. */
  readonly password: string | undefined
  readonly environment: Readonly<Record<string, string>>
  /** Creates the directories that must exist when OpenCode starts. */
  readonly prepareDirectories: () => Promise<void>
}

export interface SpawnedProcess {
  readonly record: RunRecord
  /** Undefined while the process runs. */
  readonly exitReason: () => string | undefined
  readonly exited: Promise<{ readonly why: string }>
}

export const spawnAgent = async (
  spec: ProcessSpec,
  port: number,
  options: SpawnOptions,
): Promise<SpawnedProcess> => {
  const password = spec.password ?? crypto.randomUUID()
  const mark = crypto.randomUUID()
  // The log of the process before is kept for debugging; there are never more than two files.
  await rename(options.logFile, `${options.logFile}.1`).catch(() => {})
  // Imported on demand: loading it takes 7 ms, which would delay the gateway's first response.
  const { execa } = await import("execa")
  const child = spawn(execa, spec, { port, password, mark }, options)
  const identity = child.pid === undefined ? undefined : options.processes.find(child.pid)
  let exitReason: string | undefined
  const exited = child.then((result) => {
    exitReason = describeExit(result)
    return { why: `OpenCode ${exitReason}` }
  })
  if (!identity) throw new LaunchError("exit", `${(await exited).why} at once`)
  const record: RunRecord = {
    pid: identity.pid,
    startTime: identity.startTime,
    url: `http://${options.hostname}:${port}`,
    password,
    mark,
    version: spec.version,
    // Matches no configuration: a runner that finds this record ends the process instead of adopting it.
    hash: "",
    startHash: spec.startHash,
  }
  await options.record.write(record)
  return { record, exitReason: () => exitReason, exited }
}

const spawn = (
  execa: typeof Execa,
  spec: ProcessSpec,
  { port, password, mark }: { port: number; password: string; mark: string },
  { hostname, workDir, logFile, user }: SpawnOptions,
) => {
  // A file instead of a pipe, so that OpenCode can outlive the runner; opened for appending, so that the file can be
  // truncated while OpenCode writes. The cast: execa's types accept only the standard descriptors.
  const output = openSync(logFile, "a", 0o600) as 1
  chmodSync(logFile, 0o600)
  const flags = ["--hostname", hostname, "--port", String(port)]
  const child = execa(spec.binary, ["serve", ...flags, "--print-logs", "--log-level", "WARN"], {
    cwd: workDir,
    env: { ...spec.environment, OPENCODE_SERVER_PASSWORD: password, [RUN_MARK_VARIABLE]: mark },
    extendEnv: false,
    stdin: "ignore",
    stdout: output,
    stderr: output,
    buffer: false,
    reject: false,
    // A new process session (setsid): neither a signal to the runner's group nor the runner's exit ends OpenCode.
    detached: true,
    cleanup: false,
    ...(user && { uid: user.uid, gid: user.gid }),
  })
  closeSync(output)
  return child
}

const describeExit = (result: {
  signal?: string | undefined
  exitCode?: number | undefined
  shortMessage?: string | undefined
}): string => {
  if (result.signal !== undefined) return `was killed by ${result.signal}`
  if (result.exitCode !== undefined) return `exited with code ${result.exitCode}`
  return `could not be run (${result.shortMessage ?? "unknown"})`
}
