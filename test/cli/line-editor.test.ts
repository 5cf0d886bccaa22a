/** The line editor of the chat: keys, paste, history, and the redrawn line below streaming output. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { PassThrough } from "node:stream"
import { createKeyReader } from "../../src/cli/chat/keys.ts"
import {
  type Editor,
  emptyEditor,
  type Key,
  step,
  textOf,
} from "../../src/cli/chat/line-editor-state.ts"
import { createTerminalLine } from "../../src/cli/chat/terminal-line.ts"
import { visibleText } from "../../src/lib/visible-text.ts"
import { createScreen } from "../kit/screen.ts"

const ESC = "\u001B"
const keyNames = [
  "newline",
  "backspace",
  "delete",
  "left",
  "right",
  "up",
  "down",
  "home",
  "end",
  "kill-left",
  "kill-right",
  "kill-word",
  "enter",
] as const
const anyKey: fc.Arbitrary<Key> = fc.oneof(
  fc.constantFrom(...keyNames).map((key): Key => ({ key })),
  fc.string({ maxLength: 6 }).map((text): Key => ({ key: "text", text })),
)

const press = (editor: Editor, keys: readonly Key[]): Editor =>
  keys.reduce((state, key) => step(state, key)[0], editor)

test("after any keys the cursor is inside the text, and typing inserts at the cursor", () => {
  fc.assert(
    fc.property(fc.array(anyKey, { maxLength: 40 }), (keys) => {
      const editor = press(emptyEditor(["old one", "two\nlines"]), keys)
      expect(editor.cursor).toBeWithin(0, editor.text.length + 1)
      const [next] = step(editor, { key: "text", text: "x" })
      expect(textOf(next)).toBe(
        `${editor.text.slice(0, editor.cursor).join("")}x${editor.text.slice(editor.cursor).join("")}`,
      )
    }),
  )
})

test("a paste is one text with its line breaks, however its bytes are split", () => {
  fc.assert(
    fc.property(fc.string(), fc.array(fc.nat({ max: 30 })), (text, cuts) => {
      const pasted = text.replaceAll(ESC, "").replaceAll("\r", "")
      const bytes = `a${ESC}[200~${pasted.replaceAll("\n", "\r")}${ESC}[201~\r`
      const reader = createKeyReader()
      const keys: Key[] = []
      let at = 0
      for (const cut of [...cuts, bytes.length]) {
        keys.push(...reader.read(bytes.slice(at, at + cut)))
        at += cut
      }
      expect(keys).toEqual([
        { key: "text", text: "a" },
        { key: "text", text: pasted },
        { key: "enter" },
      ])
    }),
  )
})

test("up and down walk through the history and return to the unfinished line", () => {
  const typed = press(emptyEditor(["first", "second"]), [{ key: "text", text: "draft" }])
  const first = press(typed, [{ key: "up" }, { key: "up" }, { key: "up" }])
  expect(textOf(first)).toBe("first")
  expect(textOf(press(first, [{ key: "down" }, { key: "down" }, { key: "down" }]))).toBe("draft")
})

test("Ctrl-C clears a line that has text and is an interrupt on an empty one", () => {
  const typed = press(emptyEditor(), [{ key: "text", text: "half" }])
  const [cleared, none] = step(typed, { key: "interrupt" })
  expect([textOf(cleared), none]).toEqual(["", []])
  expect(step(cleared, { key: "interrupt" })[1]).toEqual([{ do: "interrupt" }])
})

test("no text of an agent contains a control character after it was made visible", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const codes = Array.from(visibleText(text)).map((character) => character.codePointAt(0) ?? 0)
      const controls = codes.filter(
        (code) => (code < 0x20 && code !== 0x0a && code !== 0x09) || (code >= 0x7f && code < 0xa0),
      )
      expect(controls).toEqual([])
    }),
  )
  expect(visibleText(`${ESC}]0;x\u0007`)).toBe("␛]0;x␇")
})

test("any typing while output streams in leaves the whole output on the screen, and then the line", () => {
  const plain = fc.string({ unit: fc.constantFrom("a", "b", " ", "c"), maxLength: 30 })
  const action = fc.oneof(
    fc.record({ out: fc.array(plain, { maxLength: 3 }).map((lines) => lines.join("\n")) }),
    fc.record({
      key: fc.constantFrom("x", "yz", "\u007F", `${ESC}[D`, `${ESC}\r`, "long words here"),
    }),
  )
  fc.assert(
    fc.property(fc.array(action, { maxLength: 25 }), (actions) => {
      const columns = 20
      const screen = createScreen(columns)
      const input = new PassThrough()
      const output = Object.assign(new PassThrough(), { columns })
      output.on("data", (data: Buffer) => screen.write(data.toString()))
      const line = createTerminalLine({
        input,
        output,
        prompt: "> ",
        history: [],
        onSubmit: () => {},
        onInterrupt: () => {},
        onEnd: () => {},
        onHistory: () => {},
      })
      line.open()
      let printed = ""
      let editor = emptyEditor()
      for (const one of actions) {
        if ("out" in one) {
          printed += one.out
          line.write(one.out)
        } else {
          input.emit("data", one.key)
          for (const key of createKeyReader().read(one.key)) editor = step(editor, key)[0]
        }
      }
      const wrapped = (text: string) =>
        text.split("\n").flatMap((part) => {
          const rows = part.match(/.{1,20}/g) ?? [""]
          return rows.map((row) => row.trimEnd())
        })
      const above = printed === "" ? [] : wrapped(printed.replace(/\n$/, ""))
      const below = wrapped(`> ${textOf(editor).replaceAll("\n", "\n  ")}`)
      const shown = [...screen.lines()]
      while (shown.length > above.length + below.length && shown.at(-1) === "") shown.pop()
      expect(shown).toEqual([...above, ...below])
    }),
  )
})

test("a line that is submitted while a line of output is unfinished is shown below it and does not cut it", () => {
  const screen = createScreen(40)
  const input = new PassThrough()
  const output = Object.assign(new PassThrough(), { columns: 40 })
  output.on("data", (data: Buffer) => screen.write(data.toString()))
  const submitted: string[] = []
  const line = createTerminalLine({
    input,
    output,
    prompt: "> ",
    history: [],
    onSubmit: (text) => void submitted.push(text),
    onInterrupt: () => {},
    onEnd: () => {},
    onHistory: () => {},
  })
  const shown = () =>
    screen
      .lines()
      .map((row) => row.trimEnd())
      .join("\n")
      .trimEnd()
  line.open()
  line.write("before\nfirst half, ")
  input.emit("data", "next prompt\r")
  expect(submitted).toEqual(["next prompt"])
  expect(shown()).toBe("before\nfirst half,\n> next prompt\n>")
  line.write("second")
  input.emit("data", "typed")
  expect(shown()).toBe("before\nfirst half, second\n> next prompt\n> typed")
  line.write(" half\nthe end\n")
  expect(shown()).toBe("before\nfirst half, second half\n> next prompt\nthe end\n> typed")
  line.write("unfinished")
  input.emit("data", "\r")
  line.close()
  expect(shown()).toEndWith("the end\nunfinished\n> typed")
})
