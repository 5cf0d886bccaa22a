/** The line that a person edits: text of any number of lines, a cursor, and a history. Pure: a key gives a new state and effects. */

export type Key =
  | { readonly key: "text"; readonly text: string }
  | {
      readonly key:
        | "enter"
        | "newline"
        | "backspace"
        | "delete"
        | "left"
        | "right"
        | "up"
        | "down"
        | "home"
        | "end"
        | "kill-left"
        | "kill-right"
        | "kill-word"
        | "interrupt"
        | "end-of-input"
    }

export interface Editor {
  /** One entry per character as a person sees it. */
  readonly text: readonly string[]
  readonly cursor: number
  readonly history: readonly string[]
  /** The entry of the history that is shown; `history.length` is the new line. */
  readonly at: number
  /** The new line while an entry of the history is shown. */
  readonly draft: string
}

export type EditorEffect =
  | { readonly do: "submit"; readonly text: string }
  /** Ctrl-C on an empty line. */
  | { readonly do: "interrupt" }
  /** Ctrl-D on an empty line. */
  | { readonly do: "end" }

const HISTORY = 500

export const emptyEditor = (history: readonly string[] = []): Editor => ({
  text: [],
  cursor: 0,
  history,
  at: history.length,
  draft: "",
})

const characters = (text: string): readonly string[] => Array.from(text)

export const textOf = ({ text }: Editor): string => text.join("")

export const step = (editor: Editor, key: Key): readonly [Editor, readonly EditorEffect[]] => {
  const { text, cursor } = editor
  const change = (next: readonly string[], place: number): readonly [Editor, readonly []] => [
    { ...editor, text: next, cursor: place },
    [],
  ]
  const move = (place: number) => change(text, Math.max(0, Math.min(text.length, place)))
  const without = (from: number, to: number) =>
    change([...text.slice(0, from), ...text.slice(to)], from)
  const lineStart = text.lastIndexOf("\n", cursor - 1 < 0 ? -Infinity : cursor - 1) + 1
  const nextBreak = text.indexOf("\n", cursor)
  const lineEnd = nextBreak === -1 ? text.length : nextBreak
  switch (key.key) {
    case "text":
      return insert(editor, key.text)
    case "newline":
      return insert(editor, "\n")
    case "enter":
      return submit(editor)
    case "backspace":
      return cursor === 0 ? [editor, []] : without(cursor - 1, cursor)
    case "delete":
      return without(cursor, Math.min(text.length, cursor + 1))
    case "left":
      return move(cursor - 1)
    case "right":
      return move(cursor + 1)
    case "home":
      return move(cursor === 0 ? 0 : lineStart)
    case "end":
      return move(lineEnd)
    case "kill-left":
      return without(cursor === 0 ? 0 : lineStart, cursor)
    case "kill-right":
      return without(cursor, lineEnd)
    case "kill-word": {
      const before = text
        .slice(0, cursor)
        .join("")
        .replace(/\S*\s*$/, "")
      return without(characters(before).length, cursor)
    }
    case "up":
      return cursor > 0 && lineStart > 0 ? moveLine(editor, lineStart, -1) : recall(editor, -1)
    case "down":
      return lineEnd < text.length ? moveLine(editor, lineStart, 1) : recall(editor, 1)
    case "interrupt":
      return text.length === 0 ? [editor, [{ do: "interrupt" }]] : [emptyEditor(editor.history), []]
    case "end-of-input":
      return text.length === 0
        ? [editor, [{ do: "end" }]]
        : without(cursor, Math.min(text.length, cursor + 1))
  }
}

const insert = (editor: Editor, added: string): readonly [Editor, readonly []] => {
  const { text, cursor } = editor
  const pieces = characters(added)
  const next = [...text.slice(0, cursor), ...pieces, ...text.slice(cursor)]
  return [{ ...editor, text: next, cursor: cursor + pieces.length }, []]
}

/** A backslash before Enter is a line break, for terminals that cannot send another key for it. */
const submit = (editor: Editor): readonly [Editor, readonly EditorEffect[]] => {
  const { text, cursor, history } = editor
  if (text[cursor - 1] === "\\") {
    const next = [...text.slice(0, cursor - 1), "\n", ...text.slice(cursor)]
    return [{ ...editor, text: next }, []]
  }
  const written = textOf(editor)
  const keep = written.trim() !== "" && history.at(-1) !== written
  const kept = keep ? [...history, written].slice(-HISTORY) : history
  return [emptyEditor(kept), [{ do: "submit", text: written }]]
}

const recall = (editor: Editor, by: 1 | -1): readonly [Editor, readonly []] => {
  const { history, at } = editor
  const next = at + by
  if (next < 0 || next > history.length) return [editor, []]
  const draft = at === history.length ? textOf(editor) : editor.draft
  const text = characters(next === history.length ? draft : (history[next] ?? ""))
  return [{ ...editor, text, cursor: text.length, at: next, draft }, []]
}

/** To the same column of the line above or below. */
const moveLine = (
  editor: Editor,
  lineStart: number,
  by: 1 | -1,
): readonly [Editor, readonly []] => {
  const { text, cursor } = editor
  const column = cursor - lineStart
  const lines = textOf(editor)
    .split("\n")
    .map((line) => characters(line).length)
  const row = text.slice(0, lineStart).filter((character) => character === "\n").length + by
  const start = lines.slice(0, row).reduce((sum, length) => sum + length + 1, 0)
  return [{ ...editor, cursor: start + Math.min(column, lines[row] ?? 0) }, []]
}
