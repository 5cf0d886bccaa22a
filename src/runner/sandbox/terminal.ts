/** One terminal: a login shell of the agent's user on a PTY, its kept output, and the people who look at it. */
import { chownSync, existsSync, readFileSync, readlinkSync } from "node:fs"
import type { Clock } from "../../lib/clock.ts"
import { statFields } from "../../lib/process-identity.ts"
import { endAll, sessionMembers } from "../host/processes.ts"
import { createOutputRing } from "./output-ring.ts"
import {
  emptyFlow,
  type FlowEvent,
  REPLAY_BYTES,
  RING_BYTES,
  stepFlow,
} from "./terminal-flow-state.ts"
import {
  endOfReports,
  forgetBefore,
  modesBefore,
  newModes,
  readModes,
} from "./terminal-modes-state.ts"

export interface TerminalViewer {
  /** Bytes of output. False: nothing more until `drained`. */
  readonly send: (bytes: Uint8Array) => boolean
  /** The shell has ended. */
  readonly ended: (why: string) => void
}

/** What one viewer can do. */
export interface TerminalView {
  readonly input: (bytes: Uint8Array) => void
  readonly resize: (cols: number, rows: number) => void
  readonly pause: () => void
  readonly resume: () => void
  readonly drained: () => void
  readonly leave: () => void
}

export interface TerminalSize {
  readonly cols: number
  readonly rows: number
}

export interface TerminalOptions extends TerminalSize {
  readonly command: readonly string[]
  readonly workDir: string
  readonly environment: Readonly<Record<string, string>>
  readonly user: { readonly uid: number; readonly gid: number; readonly home: string } | undefined
  /** Marks the processes, so that what a killed runner leaves of them can be found. */
  readonly owner: string
  readonly clock: Clock
  readonly onEnded: () => void
}

/** The state directory of the runner, in the environment of a terminal's programs. They are not part of the agent's own session. */
export const TERMINAL_OF = "SANDPIPER_TERMINAL_OF"
/** The process session of the terminal. A program with another one has left the terminal. */
export const TERMINAL_SESSION = "SANDPIPER_TERMINAL"
/** The shell leads the session, and its number is known to itself only. */
const NAME_SESSION = `export ${TERMINAL_SESSION}=$$; exec "$@"`

export interface Terminal {
  readonly view: (viewer: TerminalViewer) => TerminalView
  readonly viewers: () => number
  readonly size: () => TerminalSize
  /** Once a second. */
  readonly tick: () => void
  readonly close: () => void
}

const RESET = Buffer.from("\u001Bc")
/** Two keys that a terminal has for "wait" and "go on", and the flag that makes the kernel obey them. */
const XOFF = "\u0013"
const XON = "\u0011"
const IXON = 0o2000
/** More than the kernel still delivers after a stop. */
const STOP_AGAIN_BYTES = 128 * 1024
const KILL_MS = 1000
const QUIET_MS = 300
const QUIET_TRIES = 10
const NEWLINE = 10

export const openTerminal = (options: TerminalOptions): Terminal => {
  const { clock, user } = options
  const ring = createOutputRing(RING_BYTES)
  const viewers = new Map<string, TerminalViewer>()
  let flow = emptyFlow
  let modes = newModes
  let { cols, rows } = options
  let isEnded = false
  /** The input flags of the program, while its output is stopped. */
  let flagsBefore: number | undefined
  /** The end of the output when it was last stopped. */
  let stoppedAt = 0

  const deliver = (viewer: string, bytes: Uint8Array): void => {
    if (viewers.get(viewer)?.send(bytes) === false) dispatch({ type: "blocked", viewer })
  }
  const dispatch = (event: FlowChange): void => {
    const [next, effects] = stepFlow(flow, { ...event, now: clock.now() })
    flow = next
    for (const effect of effects) {
      if (effect.do === "send") deliver(effect.viewer, ring.read(effect.from, effect.to))
      else if (effect.do === "replay") deliver(effect.viewer, replay())
      else if (effect.do === "stop") stopProgram()
      else resumeProgram()
    }
  }

  /** A new screen, the modes, then the kept output from the beginning of a line. */
  const replay = (): Uint8Array => {
    const start = Math.max(ring.start(), ring.end() - REPLAY_BYTES)
    const kept = ring.read(start, ring.end())
    const line = start === 0 ? 0 : kept.indexOf(NEWLINE) + 1
    const before = forgetBefore(modes, start + line)
    return Buffer.concat([RESET, Buffer.from(modesBefore(before)), kept.subarray(line)])
  }

  const show = (bytes: Uint8Array): void => {
    const offset = ring.end()
    if (modes.partial !== "" || bytes.includes(0x1b))
      modes = readModes(modes, Buffer.from(bytes).toString("latin1"), offset)
    ring.add(bytes)
    modes = forgetBefore(modes, ring.start())
    dispatch({ type: "output", bytes: bytes.length })
    // A shell sets its own flags before each command, and Ctrl-C releases the output: then it is stopped again.
    if (flow.stopped && ring.end() - stoppedAt > STOP_AGAIN_BYTES) stopProgram()
  }

  // A PTY cannot be left unread, so the kernel is asked to hold the program's output back.
  const stopProgram = (): void => {
    const flags = pty.inputFlags
    // Set already: by the program, or by the stop before.
    if ((flags & IXON) === 0 || flagsBefore === undefined) flagsBefore = flags
    pty.inputFlags = flags | IXON
    pty.write(XOFF)
    stoppedAt = ring.end()
  }
  const resumeProgram = (): void => {
    if (flagsBefore === undefined || pty.closed) return
    // Without the flag the kernel releases the output by itself.
    if ((flagsBefore & IXON) === 0) pty.inputFlags = flagsBefore
    else pty.write(XON)
    flagsBefore = undefined
  }

  const end = (why: string): void => {
    if (isEnded) return
    isEnded = true
    for (const [id, viewer] of viewers) {
      const { at = ring.end() } = flow.viewers.get(id) ?? {}
      // A slow viewer gets the rest all the same: nothing follows it.
      if (at < ring.end()) viewer.send(at < ring.start() ? replay() : ring.read(at, ring.end()))
      viewer.ended(why)
    }
    viewers.clear()
    pty.close()
    options.onEnded()
  }

  /** How the shell ended. Its last output may still be in the PTY. */
  let ending: string | undefined
  let isOutputOver = false
  const endWithOutput = (): void => {
    if (ending !== undefined && isOutputOver) end(ending)
  }
  /** A program that the shell has left behind keeps the PTY open: the terminal does not wait for its end. */
  const endWhenQuiet = (why: string, tries: number): void => {
    const before = ring.end()
    clock.after(QUIET_MS, () => {
      if (tries === 0 || ring.end() === before) end(why)
      else endWhenQuiet(why, tries - 1)
    })
  }

  const shell = Bun.spawn(["/bin/sh", "-c", NAME_SESSION, "sh", ...options.command], {
    cwd: existsSync(options.workDir) ? options.workDir : (user?.home ?? "/"),
    env: {
      ...options.environment,
      TERM: "xterm-256color",
      COLORTERM: "truecolor",
      [TERMINAL_OF]: options.owner,
    },
    ...(user && { uid: user.uid, gid: user.gid }),
    terminal: {
      cols,
      rows,
      name: "xterm-256color",
      data: (_pty, bytes) => show(bytes),
      exit: () => {
        isOutputOver = true
        endWithOutput()
      },
    },
    onExit: (_shell, code, signal) => {
      ending = signal === null ? `exit code ${code}` : `signal ${signal}`
      endWithOutput()
      endWhenQuiet(ending, QUIET_TRIES)
    },
  })
  const pty = required(shell.terminal)
  if (user !== undefined) giveTty(shell.pid, user)

  return {
    view: (viewer) => {
      const id = crypto.randomUUID()
      viewers.set(id, viewer)
      dispatch({ type: "joined", viewer: id })
      deliver(id, replay())
      return {
        input: (bytes) => void (pty.closed || pty.write(Uint8Array.from(bytes))),
        resize: (nextCols, nextRows) => {
          if (pty.closed || (nextCols === cols && nextRows === rows)) return
          cols = nextCols
          rows = nextRows
          pty.resize(cols, rows)
        },
        pause: () => dispatch({ type: "paused", viewer: id }),
        resume: () => dispatch({ type: "resumed", viewer: id }),
        drained: () => dispatch({ type: "drained", viewer: id }),
        leave: () => {
          viewers.delete(id)
          dispatch({ type: "left", viewer: id })
        },
      }
    },
    viewers: () => viewers.size,
    size: () => ({ cols, rows }),
    tick: () => {
      if (isEnded) return
      dispatch({ type: "tick" })
      const leftOver = endOfReports(modes)
      // A program that was killed has not switched its mouse reports off; the shell would read them as typed text.
      if (leftOver !== "" && isShellInFront(shell.pid)) show(Buffer.from(leftOver))
    },
    close: () => {
      if (isEnded) return
      shell.kill("SIGHUP")
      end("closed")
      // A shell that gets SIGHUP passes it on to its programs. One that is stopped or busy does not.
      clock.after(KILL_MS, () => void endAll(() => sessionMembers(shell.pid), clock))
    },
  }
}

type WithoutTime<Event> = Event extends unknown ? Omit<Event, "now"> : never
type FlowChange = WithoutTime<FlowEvent>

const required = (pty: Bun.Terminal | undefined): Bun.Terminal => {
  if (pty === undefined) throw new Error("this system has no PTY for a terminal: mount /dev/pts")
  return pty
}

/** The device belongs to the runner's user; programs that open it by name run as the agent's. */
const giveTty = (pid: number, { uid, gid }: { uid: number; gid: number }): void => {
  try {
    const device = readlinkSync(`/proc/${pid}/fd/0`)
    if (/^\/dev\/pts\/\d+$/.test(device)) chownSync(device, uid, gid)
  } catch {
    // The shell has ended already.
  }
}

/** The shell reads the keyboard itself: no program that it has started does. */
const isShellInFront = (pid: number): boolean => {
  try {
    const [, , group, , , foreground] = statFields(readFileSync(`/proc/${pid}/stat`, "utf8"))
    return group === foreground
  } catch {
    return false
  }
}
