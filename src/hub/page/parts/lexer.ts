/**
 * Markdown that grows: only its end is lexed again. New text can change the last block, and while its last line is
 * unfinished that line can also turn from a block of its own into a continuation of the block before it. So the blocks
 * before the last two are final if a blank line follows them.
 */
import { Lexer, type Token } from "marked"

export interface Lexed {
  /** With `\n` line ends. */
  readonly text: string
  readonly blocks: readonly Token[]
}

export const emptyLexed: Lexed = { text: "", blocks: [] }

const lexAll = (text: string): readonly Token[] => {
  const tokens = new Lexer({ gfm: true }).lex(text)
  return tokens
}

const normalize = (text: string): string => text.replaceAll(/\r\n|\r/g, "\n")

/** The result of lexing `source`, reusing the final blocks of `before` when `source` continues its text. */
export const lexMore = (before: Lexed, source: string): Lexed => {
  const text = normalize(source)
  if (text === before.text) return before
  if (before.text === "" || !text.startsWith(before.text)) return { text, blocks: lexAll(text) }
  const kept = finalBlocks(before.blocks)
  const offset = kept.reduce((sum, { raw }) => sum + raw.length, 0)
  return { text, blocks: [...kept, ...lexAll(text.slice(offset))] }
}

/** Lexed as a whole: a reference definition at the end of a text changes links at its start. */
export const lexWhole = (source: string): Lexed => {
  const text = normalize(source)
  return { text, blocks: lexAll(text) }
}

export const hasDefinitions = (text: string): boolean => text.includes("]:")

/**
 * All blocks before the last two that are not blank lines, up to a blank line: without one, a line can still join the
 * block above it.
 */
const finalBlocks = (blocks: readonly Token[]): readonly Token[] => {
  let open = 2
  let end = blocks.length
  while (end > 0 && open > 0) {
    end -= 1
    if (blocks[end]?.type !== "space") open -= 1
  }
  while (end > 0 && blocks[end - 1]?.type !== "space") end -= 1
  return blocks.slice(0, end)
}
