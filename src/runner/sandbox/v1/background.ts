/** Background processes of `/v1/processes`: start, list, logs, input, signals, and removal of finished ones. */
import { type Clock, within } from "../../../lib/clock.ts"
import {
  addEntry,
  EMPTY_RING,
  type LogEntry,
  type LogQuery,
  type LogRing,
  type LogStream,
  selectEntries,
} from "./log-ring-state.ts"
import { type FormerProcesses, recordOf } from "./former-processes.ts"
import { signalGroup } from "../../../lib/signal-group.ts"
import { endProgram, type Launcher } from "./program.ts"
import { invalid, Problem } from "./problem.ts"
import type { SignalName, StartRequest } from "./requests.ts"

export interface ProcessInfo {
  readonly id: string
  readonly command: string
  readonly args: readonly string[]
  readonly cwd?: string
  readonly tty: boolean
  readonly interactive: boolean
  readonly owner: "user"
  readonly status: "running" | "exited"
  readonly pid?: number
  readonly exitCode?: number | null
  readonly createdAtMs: number
  readonly exitedAtMs?: number
}

export const BACKGROUND_LIMITS = {
  maxProcesses: 64,
  maxLogBytes: 1024 * 1024,
  maxInputBytes: 64 * 1024,
} as const

/** Finished processes that are remembered until they are deleted. */
const MOST_FINISHED = 256
const MOST_PENDING_INPUT = 1024 * 1024
const STOP_WAIT_MS = 2000
const MOST_WAIT_MS = 30_000

interface Running {
  info: ProcessInfo
  ring: LogRing
  readonly mark: string
  readonly pid: number
  readonly exited: Promise<void>
  readonly write: ((bytes: Uint8Array) => void) | undefined
  readonly resize: ((cols: number, rows: number) => void) | undefined
  readonly listeners: Set<() => void>
}

export interface Background {
  readonly start: (request: StartRequest) => Promise<ProcessInfo>
  readonly list: () => readonly ProcessInfo[]
  readonly get: (id: string) => ProcessInfo
  readonly logs: (id: string, query: LogQuery) => readonly LogEntry[]
  /** Calls `onChange` for new entries and at the end; returns a function that stops it. */
  readonly follow: (id: string, onChange: () => void) => () => void
  readonly input: (id: string, bytes: Uint8Array) => number
  readonly resize: (id: string, cols: number, rows: number) => void
  /** SIGTERM or SIGKILL end the whole process group; resolves when it has ended or after `waitMs`. */
  readonly end: (id: string, signal: "SIGTERM" | "SIGKILL", waitMs?: number) => Promise<ProcessInfo>
  readonly signal: (id: string, signal: SignalName) => ProcessInfo
  readonly remove: (id: string) => void
  /** Kills every process. */
  readonly stop: () => Promise<void>
}

const isRunning = ({ info }: Running): boolean => info.status === "running"

export interface BackgroundOptions {
  /** Of the server before this one. */
  readonly former: FormerProcesses
  /** Called when a process has started or ended. */
  readonly onProcesses: (now: FormerProcesses) => void
}

const FORMER_ENDED = new TextEncoder().encode(
  "The process ended with the server of the sandbox, which was restarted.\n",
)

export const createBackground = (
  launcher: Launcher,
  clock: Clock,
  { former, onProcesses }: BackgroundOptions,
): Background => {
  const known = new Map<string, Running>()
  let { started } = former
  for (const process of former.running) {
    const { id, command, args, cwd, tty, interactive, createdAtMs } = process
    const now = clock.now()
    known.set(id, {
      info: {
        id,
        command,
        args,
        ...(cwd !== undefined && { cwd }),
        tty,
        interactive,
        owner: "user",
        status: "exited",
        exitCode: null,
        createdAtMs,
        exitedAtMs: now,
      },
      ring: addEntry(
        EMPTY_RING,
        { stream: "stderr", data: FORMER_ENDED, timestampMs: now },
        BACKGROUND_LIMITS.maxLogBytes,
      ),
      mark: "",
      pid: 0,
      exited: Promise.resolve(),
      write: undefined,
      resize: undefined,
      listeners: new Set(),
    })
  }
  const report = () =>
    onProcesses({
      started,
      running: [...known.values()]
        .filter(isRunning)
        .map(({ info }) => recordOf({ ...info, args: [...info.args] })),
    })

  const find = (id: string): Running => {
    const found = known.get(id)
    if (found === undefined) throw new Problem(404, "not_found", `there is no process ${id}`)
    return found
  }
  const notify = (entry: Running) => {
    for (const listener of entry.listeners) listener()
  }

  const forgetOldest = () => {
    const finished = [...known.values()].filter((entry) => !isRunning(entry))
    for (const { info } of finished.slice(0, Math.max(0, finished.length - MOST_FINISHED))) {
      known.delete(info.id)
    }
  }

  /** Requests whose process is being started: they count as running. */
  let starting = 0
  const start = async (request: StartRequest): Promise<ProcessInfo> => {
    const running = [...known.values()].filter(isRunning).length + starting
    if (running >= BACKGROUND_LIMITS.maxProcesses) {
      throw new Problem(
        409,
        "conflict",
        `${running} processes run already, which is the limit: stop one of them`,
      )
    }
    starting += 1
    try {
      return await launch(request)
    } finally {
      starting -= 1
    }
  }

  const launch = async (request: StartRequest): Promise<ProcessInfo> => {
    started += 1
    const id = `proc_${started}`
    const processMark = crypto.randomUUID()
    const tty = request.tty === true
    const interactive = request.interactive === true || tty
    const add = (stream: LogStream, data: Uint8Array) => {
      entry.ring = addEntry(
        entry.ring,
        { stream, data, timestampMs: clock.now() },
        BACKGROUND_LIMITS.maxLogBytes,
      )
      notify(entry)
    }
    const early: Uint8Array[] = []
    let addPty = (data: Uint8Array): void => void early.push(data)
    const piped = tty
      ? undefined
      : await launcher.start(request, processMark, interactive ? "pipe" : "ignore")
    const child =
      piped ??
      (await launcher.startInTerminal(request, processMark, (data) =>
        addPty(Uint8Array.from(data)),
      ))
    const { terminal } = child
    const awaitExit = async (): Promise<void> => {
      await child.exited
      const { pid: _pid, ...rest } = entry.info
      entry.info = {
        ...rest,
        status: "exited",
        exitCode: child.signalCode === null ? child.exitCode : null,
        exitedAtMs: clock.now(),
      }
      // Processes that it left behind in its group end with it.
      signalGroup(child.pid, "SIGKILL")
      terminal?.close()
      notify(entry)
      forgetOldest()
      report()
    }
    const entry: Running = {
      info: {
        id,
        command: request.command,
        args: request.args,
        ...(request.cwd !== undefined && { cwd: request.cwd }),
        tty,
        interactive,
        owner: "user",
        status: "running",
        pid: child.pid,
        createdAtMs: clock.now(),
      },
      ring: EMPTY_RING,
      mark: processMark,
      pid: child.pid,
      exited: awaitExit(),
      write: terminal ? (bytes) => void terminal.write(bytes) : pipeWriter(piped?.stdin),
      resize: terminal && ((cols, rows) => terminal.resize(cols, rows)),
      listeners: new Set(),
    }
    known.set(id, entry)
    report()
    addPty = (data) => add("pty", data)
    for (const data of early) addPty(data)
    if (piped) {
      void readAll(piped.stdout, (data) => add("stdout", data))
      void readAll(piped.stderr, (data) => add("stderr", data))
    }
    return entry.info
  }

  const end: Background["end"] = async (id, signal, waitMs = STOP_WAIT_MS) => {
    const entry = find(id)
    if (isRunning(entry)) {
      signalGroup(entry.pid, signal)
      await within(clock, Math.min(waitMs, MOST_WAIT_MS), entry.exited)
      // Descendants that have left the group would otherwise survive.
      if (signal === "SIGKILL" || !isRunning(entry)) await endProgram(entry.mark)
    }
    return entry.info
  }

  return {
    start,
    list: () => [...known.values()].map(({ info }) => info),
    get: (id) => find(id).info,
    logs: (id, query) => selectEntries(find(id).ring, query),
    follow: (id, onChange) => {
      const { listeners } = find(id)
      listeners.add(onChange)
      return () => listeners.delete(onChange)
    },
    input: (id, bytes) => {
      const entry = find(id)
      if (bytes.length > BACKGROUND_LIMITS.maxInputBytes) {
        throw new Problem(
          413,
          "invalid_request",
          `the input has more than ${BACKGROUND_LIMITS.maxInputBytes} bytes: send it in parts`,
        )
      }
      if (!isRunning(entry)) throw new Problem(409, "conflict", `${id} has exited`)
      if (entry.write === undefined) {
        throw new Problem(409, "conflict", `${id} has no input: start it with interactive=true`)
      }
      entry.write(bytes)
      return bytes.length
    },
    resize: (id, cols, rows) => {
      const entry = find(id)
      if (entry.resize === undefined) throw invalid(`${id} has no terminal: start it with tty=true`)
      if (isRunning(entry)) entry.resize(cols, rows)
    },
    end,
    signal: (id, signal) => {
      const entry = find(id)
      if (!isRunning(entry)) throw new Problem(409, "conflict", `${id} has exited`)
      signalGroup(entry.pid, signal)
      return entry.info
    },
    remove: (id) => {
      if (isRunning(find(id))) {
        throw new Problem(409, "conflict", `${id} is still running: stop or kill it first`)
      }
      known.delete(id)
    },
    stop: async () => {
      await Promise.all(
        [...known.values()].filter(isRunning).map(({ info }) => end(info.id, "SIGKILL", 1000)),
      )
    },
  }
}

/** A process that does not read its input must not fill the memory. */
const pipeWriter = (sink: Bun.FileSink | undefined): ((bytes: Uint8Array) => void) | undefined => {
  if (sink === undefined) return undefined
  let pending = 0
  return (bytes) => {
    if (pending + bytes.length > MOST_PENDING_INPUT) {
      throw new Problem(409, "conflict", "the process does not read its input")
    }
    pending += bytes.length
    void sink.write(bytes)
    const flush = async () => {
      await sink.flush()
    }
    void flush()
      .catch(() => {})
      .finally(() => {
        pending -= bytes.length
      })
  }
}

const readAll = async (
  stream: ReadableStream<Uint8Array>,
  take: (data: Uint8Array) => void,
): Promise<void> => {
  try {
    for await (const data of stream) take(data)
  } catch {
    // The pipe was closed with its process.
  }
}
