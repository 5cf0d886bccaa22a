/** Starts a program for a `/v1` request: in a process group of its own, in a held directory, marked for the search. */
import type { HeldDirectory } from "../../../lib/untrusted-files.ts"
import { carriersOf, endAll, isAnyStarting, listProcesses } from "../../host/processes.ts"
import { systemClock } from "../../../lib/clock.ts"
import type { Files } from "./files.ts"
import { invalid } from "./problem.ts"

/** Set in the programs that `/v1` requests start, and inherited by their descendants: names one program. */
const PROGRAM_VARIABLE = "SANDPIPER_V1_PROGRAM"
/** Names the server that has started the program. */
const SERVER_VARIABLE = "SANDPIPER_V1_SERVER"

export interface ProgramRequest {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string | undefined
  readonly env: Readonly<Record<string, string>>
}

export type PipedProgram = Bun.Subprocess<"pipe" | "ignore", "pipe", "pipe">

export interface Launcher {
  /** Throws a Problem if the program cannot be started. */
  readonly start: (
    request: ProgramRequest,
    mark: string,
    stdin: "pipe" | "ignore",
  ) => Promise<PipedProgram>
  /** Starts it in a terminal of its own. */
  readonly startInTerminal: (
    request: ProgramRequest,
    mark: string,
    onData: (data: Uint8Array) => void,
  ) => Promise<Bun.Subprocess>
}

export const createLauncher = (
  files: Files,
  environment: Readonly<Record<string, string>>,
  serverMark: string,
): Launcher => {
  const spawnIn = async <Child>(
    request: ProgramRequest,
    mark: string,
    spawn: (
      command: string[],
      where: { cwd: string; env: Record<string, string>; detached: true },
    ) => Child,
  ): Promise<Child> => {
    // The workspace itself cannot be swapped: its parent does not belong to the agent.
    const directory = request.cwd === undefined ? undefined : await files.hold(request.cwd)
    try {
      return spawn([request.command, ...request.args], {
        cwd: directory ? outsideView(directory) : files.absolute("."),
        env: {
          ...environment,
          ...request.env,
          [PROGRAM_VARIABLE]: mark,
          [SERVER_VARIABLE]: serverMark,
        },
        detached: true,
      })
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      throw invalid(`${request.command} cannot be started: ${why}`)
    } finally {
      await directory?.close()
    }
  }
  return {
    start: (request, mark, stdin) =>
      spawnIn(request, mark, (command, where) =>
        Bun.spawn(command, { ...where, stdin, stdout: "pipe", stderr: "pipe" }),
      ),
    startInTerminal: (request, mark, onData) =>
      spawnIn(request, mark, (command, where) =>
        Bun.spawn(command, {
          ...where,
          terminal: { cols: 80, rows: 24, data: (_terminal, data) => onData(data) },
        }),
      ),
  }
}

/** The child resolves its directory itself, and `/proc/self` would be the child. */
const outsideView = ({ self }: HeldDirectory): string =>
  self.replace("/proc/self/", `/proc/${process.pid}/`)

/** Kills one program with all its descendants, also those that have left its process group. */
export const endProgram = (mark: string): Promise<number> => endCarriers(PROGRAM_VARIABLE, mark)

/** Kills all programs that a server with this mark has started. */
export const endProgramsOf = (serverMark: string): Promise<number> =>
  endCarriers(SERVER_VARIABLE, serverMark)

const endCarriers = (variable: string, value: string): Promise<number> =>
  endAll(() => carriersOf(variable, value, listProcesses()), systemClock, isAnyStarting)
