/** The piece of a message that a search shows: around the first match, without Markdown's marks, cut between words. Pure. */
import type { SearchHit } from "../../wire/clients/conversation.ts"
import { withoutMarks } from "./markdown-words.ts"

/** Few, so that the match is in view on a phone. */
const BEFORE_CHARACTERS = 16
const EXCERPT_CHARACTERS = 240
/** Text around the match that is read: marks and long words make it longer than what is shown. */
const READ_CHARACTERS = 2000
const CUT = "… "

type Excerpt = Pick<SearchHit, "text" | "marks">

/** The text around the first match, with the position of every match in it. */
export const excerptOf = (text: string, query: string, isMarkdown: boolean): Excerpt => {
  const match = new RegExp(query.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`), "giu")
  const first = Math.max(0, text.search(match))
  const from = first <= READ_CHARACTERS ? 0 : lineStart(text, first)
  const read = text.slice(from, first + READ_CHARACTERS)
  const plain = isMarkdown ? withoutMarks(read) : read
  // A query for the marks themselves finds nothing without them.
  const chosen = plain.search(match) === -1 ? read : plain
  const isCut = { before: from > 0, after: first + READ_CHARACTERS < text.length }
  return cut(chosen, Math.max(0, chosen.search(match)), match, isCut)
}

/** The start of the line, or of the text that is read if the line is longer. */
const lineStart = (text: string, at: number): number =>
  Math.max(at - READ_CHARACTERS, text.lastIndexOf("\n", at) + 1)

const cut = (
  text: string,
  at: number,
  match: RegExp,
  isCut: { readonly before: boolean; readonly after: boolean },
): Excerpt => {
  const start = wordStart(text, Math.max(0, at - BEFORE_CHARACTERS), at)
  const found = match.exec(text.slice(at))?.[0].length ?? 0
  match.lastIndex = 0
  const end = wordEnd(text, start + EXCERPT_CHARACTERS, at + found)
  const before = start > 0 || isCut.before ? CUT : ""
  const after = end < text.length || isCut.after ? CUT.trimEnd() : ""
  const shown = `${before}${text.slice(start, end).toWellFormed()}`
  const marks = [...shown.matchAll(match)].map(
    ({ index, 0: { length } }) => [index, index + length] as const,
  )
  return { text: `${shown}${after}`, marks }
}

/** The first start of a word from `wanted` on; `wanted` itself when the match is in a longer word. */
const wordStart = (text: string, wanted: number, match: number): number => {
  if (wanted === 0 || /\s/.test(text[wanted - 1] ?? "")) return wanted
  const space = text.slice(wanted, match).search(/\s\S/)
  return space === -1 ? wanted : wanted + space + 1
}

/** The last end of a word up to `wanted`; `wanted` itself when the word is longer. The match is never cut. */
const wordEnd = (text: string, wanted: number, matchEnd: number): number => {
  if (wanted >= text.length) return text.length
  const least = Math.max(matchEnd, 0)
  if (least >= wanted) return least
  const rest = text.slice(least, wanted + 1)
  const space = Math.max(rest.lastIndexOf(" "), rest.lastIndexOf("\n"))
  return space === -1 ? wanted : least + space
}
