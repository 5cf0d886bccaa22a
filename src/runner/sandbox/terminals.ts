/** The terminals of a sandbox: at most eight, each kept for an hour without a viewer; all end with the runner. */
import type { Clock } from "../../lib/clock.ts"
import {
  openTerminal,
  type Terminal,
  type TerminalOptions,
  type TerminalSize,
  type TerminalView,
  type TerminalViewer,
} from "./terminal.ts"

export interface TerminalRow extends TerminalSize {
  readonly id: string
  readonly title: string
  readonly createdAt: number
  readonly viewers: number
}

export interface Terminals {
  readonly list: () => readonly TerminalRow[]
  /** The id of a new terminal; undefined if there are too many. */
  readonly open: (size: TerminalSize, title?: string) => string | undefined
  readonly view: (id: string, viewer: TerminalViewer) => TerminalView | undefined
  readonly titleOf: (id: string) => string
  readonly close: (id: string) => boolean
  readonly stop: () => void
}

export type TerminalsOptions = Pick<
  TerminalOptions,
  "workDir" | "environment" | "user" | "owner"
> & {
  readonly clock: Clock
  readonly command?: readonly string[]
}

const MOST_TERMINALS = 8
const UNSEEN_MS = 3_600_000
const TICK_MS = 1000

interface Opened {
  readonly terminal: Terminal
  readonly title: string
  readonly createdAt: number
  seenAt: number
}

export const createTerminals = (options: TerminalsOptions): Terminals => {
  const { clock, command = ["bash", "-l"] } = options
  const opened = new Map<string, Opened>()
  let count = 0
  let cancelTick = () => {}

  const tick = () => {
    const now = clock.now()
    for (const [id, one] of opened) {
      if (one.terminal.viewers() > 0) one.seenAt = now
      if (now - one.seenAt >= UNSEEN_MS) close(id)
      else one.terminal.tick()
    }
    // Without a terminal there is no timer.
    cancelTick = opened.size > 0 ? clock.after(TICK_MS, tick) : () => {}
  }
  const close = (id: string): boolean => {
    const found = opened.get(id)
    opened.delete(id)
    found?.terminal.close()
    return found !== undefined
  }

  return {
    list: () =>
      [...opened].map(([id, { terminal, title, createdAt }]) => ({
        id,
        title,
        createdAt,
        viewers: terminal.viewers(),
        ...terminal.size(),
      })),
    open: (size, title) => {
      if (opened.size >= MOST_TERMINALS) return undefined
      const id = crypto.randomUUID()
      count += 1
      const at = clock.now()
      const terminal = openTerminal({
        ...options,
        ...size,
        command,
        onEnded: () => void opened.delete(id),
      })
      opened.set(id, { terminal, title: title ?? `Terminal ${count}`, createdAt: at, seenAt: at })
      cancelTick()
      cancelTick = clock.after(TICK_MS, tick)
      return id
    },
    view: (id, viewer) => {
      const found = opened.get(id)
      if (found === undefined) return undefined
      found.seenAt = clock.now()
      return found.terminal.view(viewer)
    },
    titleOf: (id) => opened.get(id)?.title ?? "",
    close,
    stop: () => {
      cancelTick()
      for (const id of opened.keys()) close(id)
    },
  }
}
