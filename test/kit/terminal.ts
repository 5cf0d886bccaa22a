/** The compiled binary in a terminal: keys go in, and the screen is what a terminal of that size would show. */
import { createScreen } from "./screen.ts"
import { untilFound, WAIT_MS } from "./until-true.ts"

export interface TerminalOptions {
  readonly cwd: string
  readonly env: Record<string, string>
  readonly cols?: number
  readonly rows?: number
}

export interface Terminal {
  readonly child: Bun.Subprocess
  /** Everything that was written, with its escape sequences. */
  readonly raw: () => string
  /** The lines that the terminal shows, including those that scrolled out, without trailing spaces. */
  readonly lines: () => readonly string[]
  readonly text: () => string
  readonly type: (keys: string) => void
  /** Waits for a text on the screen; `after` is the number of characters of `raw` to skip. */
  readonly seen: (what: string | RegExp, limitMs?: number) => Promise<string>
  readonly exited: Promise<number>
  readonly kill: () => Promise<void>
  /** With SIGTERM: an `up` ends OpenCode and its other processes before it exits. */
  readonly stop: () => Promise<void>
}

export const startTerminal = (
  command: readonly string[],
  { cwd, env, cols = 100, rows = 40 }: TerminalOptions,
): Terminal => {
  let raw = ""
  /** All output has come: the terminal is closed. */
  let isOver = false
  const screen = createScreen(cols)
  const decoder = new TextDecoder()
  const child = Bun.spawn([...command], {
    cwd,
    env: { TERM: "xterm-256color", ...env },
    terminal: {
      cols,
      rows,
      data: (_terminal, bytes) => {
        const text = decoder.decode(bytes, { stream: true })
        raw += text
        screen.write(text)
      },
      exit: () => {
        isOver = true
      },
    },
  })
  const text = () => screen.lines().join("\n")
  const seen = (what: string | RegExp, limitMs = WAIT_MS): Promise<string> =>
    untilFound(
      () => {
        const found =
          typeof what === "string" ? text().includes(what) && what : what.exec(text())?.[0]
        if (!found && isOver)
          throw new Error(`exit code ${child.exitCode} before ${what}:\n${text()}`)
        return found
      },
      () => `${what} on the screen:\n${text()}\n`,
      limitMs,
    )
  return {
    child,
    raw: () => raw,
    lines: screen.lines,
    text,
    type: (keys) => void child.terminal?.write(keys),
    seen,
    exited: child.exited,
    kill: async () => {
      child.kill("SIGKILL")
      await child.exited
    },
    stop: async () => {
      child.kill("SIGTERM")
      await child.exited
    },
  }
}
