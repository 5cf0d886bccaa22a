/** The bottom of a terminal: the edited line stays below the output, which is written above it as it streams in. */
import type { Readable, Writable } from "node:stream"
import { createKeyReader } from "./keys.ts"
import { type Editor, emptyEditor, step, textOf } from "./line-editor-state.ts"
import { visibleText } from "../../lib/visible-text.ts"

export interface TerminalLineOptions {
  readonly input: Readable & { readonly setRawMode?: (raw: boolean) => unknown }
  readonly output: Writable & { readonly columns?: number; readonly rows?: number }
  /** Stands before the edited text; it may contain styles. */
  readonly prompt: string
  readonly history: readonly string[]
  readonly onSubmit: (text: string) => void
  /** Ctrl-C on an empty line. */
  readonly onInterrupt: () => void
  /** Ctrl-D on an empty line, or the end of the input. */
  readonly onEnd: () => void
  /** The submitted line answers a question: it is not kept in the history. */
  readonly isAnswer?: () => boolean
  /** Called with the history after each submitted line. */
  readonly onHistory: (history: readonly string[]) => void
}

export interface TerminalLine {
  /** Writes output above the edited line. Its control characters must have been removed. */
  readonly write: (text: string) => void
  /** Shows the edited line; before this, only output is shown. */
  readonly open: () => void
  /** A dim line above the edited one; empty for none. */
  readonly setStatus: (text: string) => void
  readonly close: () => void
}

const PASTE_ON = "\u001B[?2004h"
const PASTE_OFF = "\u001B[?2004l"
const ERASE_BELOW = "\u001B[J"

export const createTerminalLine = (options: TerminalLineOptions): TerminalLine => {
  const { input, output, prompt } = options
  const keys = createKeyReader()
  let editor: Editor = emptyEditor(options.history)
  let isOpen = false
  let closed = false
  let status = ""
  /** The unfinished last line of the output. */
  let tail = ""
  /** Submitted lines, drawn below the unfinished line until it ends: they would cut it in two. */
  let held: readonly string[] = []
  /** Rows of the edited text above the cursor, while it is drawn. */
  let above: number | undefined

  const columns = () => Math.max(20, output.columns ?? 80)
  const rowsFor = (text: string) => Math.max(1, Math.ceil(Bun.stringWidth(text) / columns()))

  /** Moves the cursor to the end of the output and erases everything below. */
  const erase = (): string => {
    if (above === undefined) return ""
    const up = above === 0 ? "" : `\u001B[${above}A`
    above = undefined
    const column = Bun.stringWidth(tail) % columns()
    if (tail === "" || column === 0) return `\r${up}${ERASE_BELOW}`
    return `\r${up}${ERASE_BELOW}\u001B[1A\u001B[${column + 1}G`
  }
  const draw = (): string => {
    if (!isOpen || closed) return ""
    const indent = " ".repeat(Bun.stringWidth(prompt))
    const shown = editor.text.map((character) =>
      character === "\n" ? "\n" : visibleText(character),
    )
    const statusRow = [...held, ...(status === "" ? [] : [status])]
    const lines = [
      ...statusRow,
      ...shown
        .join("")
        .split("\n")
        .map((line, at) => `${at === 0 ? prompt : indent}${line}`),
    ]
    const toCursor = [
      ...statusRow,
      ...shown
        .slice(0, editor.cursor)
        .join("")
        .split("\n")
        .map((line, at) => `${at === 0 ? prompt : indent}${line}`),
    ]
    const last = toCursor.at(-1) ?? ""
    const width = Bun.stringWidth(last)
    const cursorRow =
      toCursor.slice(0, -1).reduce((sum, line) => sum + rowsFor(line), 0) +
      Math.floor(width / columns())
    const total = lines.reduce((sum, line) => sum + rowsFor(line), 0)
    // A line that ends at the edge leaves the cursor there: a space and a return move it to the next row.
    const endsAtEdge = width > 0 && width % columns() === 0 && editor.cursor === editor.text.length
    const body = lines.join("\r\n") + (endsAtEdge ? " \r" : "")
    const drawnRows = endsAtEdge ? total + 1 : total
    const start = tail === "" || Bun.stringWidth(tail) % columns() === 0 ? "" : "\r\n"
    const back = drawnRows - 1 - cursorRow
    above = cursorRow
    return `${start}${body}${back > 0 ? `\u001B[${back}A` : ""}\r${width % columns() > 0 ? `\u001B[${width % columns()}C` : ""}`
  }
  const redraw = () => void output.write(erase() + draw())

  const write = (text: string) => {
    const before = erase()
    const end = text.indexOf("\n") + 1
    const echo = end === 0 ? "" : held.map((line) => `${line}\n`).join("")
    if (end > 0) held = []
    const shown = end === 0 ? text : text.slice(0, end) + echo + text.slice(end)
    tail = `${tail}${shown}`.split("\n").at(-1) ?? ""
    output.write(before + shown.replaceAll("\n", "\r\n") + draw())
  }
  const onData = (data: Buffer | string) => {
    for (const key of keys.read(data.toString())) {
      const before = editor.history
      const [next, effects] = step(editor, key)
      editor = next
      for (const effect of effects) {
        if (effect.do === "interrupt") options.onInterrupt()
        if (effect.do === "end") options.onEnd()
        if (effect.do === "submit") {
          if (options.isAnswer?.()) editor = emptyEditor(before)
          options.onHistory(editor.history)
          const indent = " ".repeat(Bun.stringWidth(prompt))
          const [first = "", ...more] = visibleText(effect.text).split("\n")
          const echo = [`${prompt}${first}`, ...more.map((line) => `${indent}${line}`)]
          if (tail === "") write(echo.map((line) => `${line}\n`).join(""))
          else {
            output.write(erase())
            held = [...held, ...echo]
            output.write(draw())
          }
          options.onSubmit(effect.text)
        }
      }
    }
    if (!closed) redraw()
  }
  input.setEncoding("utf8")
  input.setRawMode?.(true)
  output.write(PASTE_ON)
  input.on("data", onData)
  input.on("end", options.onEnd)
  output.on("resize", redraw)

  return {
    write,
    open: () => {
      isOpen = true
      redraw()
    },
    setStatus: (text) => {
      if (text === status) return
      const before = erase()
      status = text
      output.write(before + draw())
    },
    close: () => {
      if (closed) return
      if (held.length > 0) write("\n")
      const before = erase()
      closed = true
      output.write(
        `${before}${tail === "" ? "" : "\r\n"}${textOf(editor) === "" ? "" : "\r\n"}${PASTE_OFF}`,
      )
      input.off("data", onData)
      output.off("resize", redraw)
      input.setRawMode?.(false)
      input.pause()
    },
  }
}
