/** Turns the bytes of a terminal into keys. A bracketed paste is one key with its whole text. */
import type { Key } from "./line-editor-state.ts"

export interface KeyReader {
  /** Returns the keys that are complete; an unfinished sequence waits for more text. */
  readonly read: (text: string) => readonly Key[]
}

const PASTE_START = "\u001B[200~"
const PASTE_END = "\u001B[201~"

const sequences: Readonly<Record<string, Key>> = {
  "\u001B[A": { key: "up" },
  "\u001BOA": { key: "up" },
  "\u001B[B": { key: "down" },
  "\u001BOB": { key: "down" },
  "\u001B[C": { key: "right" },
  "\u001BOC": { key: "right" },
  "\u001B[D": { key: "left" },
  "\u001BOD": { key: "left" },
  "\u001B[H": { key: "home" },
  "\u001BOH": { key: "home" },
  "\u001B[1~": { key: "home" },
  "\u001B[F": { key: "end" },
  "\u001BOF": { key: "end" },
  "\u001B[4~": { key: "end" },
  "\u001B[3~": { key: "delete" },
  "\u001B\r": { key: "newline" },
  "\u001B\n": { key: "newline" },
  "\n": { key: "newline" },
  "\r": { key: "enter" },
  "\u007F": { key: "backspace" },
  "\b": { key: "backspace" },
  "\u0001": { key: "home" },
  "\u0002": { key: "left" },
  "\u0003": { key: "interrupt" },
  "\u0004": { key: "end-of-input" },
  "\u0005": { key: "end" },
  "\u0006": { key: "right" },
  "\u000B": { key: "kill-right" },
  "\u000E": { key: "down" },
  "\u0010": { key: "up" },
  "\u0015": { key: "kill-left" },
  "\u0017": { key: "kill-word" },
}

const isControl = (character: string): boolean => character < " " || character === "\u007F"
// Any other sequence of a terminal, complete or not: it is dropped.
const SEQUENCE = new RegExp("^\u001B(?:\\[[0-9;?<=>]*[@-~]|O.|[^\\[O])")

export const createKeyReader = (): KeyReader => {
  let rest = ""

  /** The first key of `rest`, or undefined if more text must arrive first. */
  const take = (): { readonly length: number; readonly key?: Key } | undefined => {
    if (rest.startsWith(PASTE_START)) {
      const end = rest.indexOf(PASTE_END)
      if (end === -1) return undefined
      const text = rest.slice(PASTE_START.length, end).replaceAll(/\r\n?/g, "\n")
      return { length: end + PASTE_END.length, key: { key: "text", text } }
    }
    if (rest.startsWith("\u001B")) {
      const found = SEQUENCE.exec(rest)?.[0]
      if (found === undefined) return undefined
      const key = sequences[found]
      return { length: found.length, ...(key && { key }) }
    }
    const [first = ""] = rest
    if (isControl(first)) {
      const key =
        sequences[first] ?? (first === "\t" ? ({ key: "text", text: "\t" } as const) : undefined)
      return { length: 1, ...(key && { key }) }
    }
    const end = Array.from(rest).findIndex(isControl)
    const text = end === -1 ? rest : Array.from(rest).slice(0, end).join("")
    return { length: text.length, key: { key: "text", text } }
  }

  return {
    read: (text) => {
      rest += text
      const keys: Key[] = []
      while (rest !== "") {
        const taken = take()
        if (!taken) break
        if (taken.key) keys.push(taken.key)
        rest = rest.slice(taken.length)
      }
      return keys
    },
  }
}
