/** The start of a long prompt. A long line counts as the rows that it fills, so that a pasted paragraph is cut too. Pure. */

const MAX_ROWS = 12
/** Characters of a row in the widest bubble. */
const ROW = 72

const rowsOf = (line: string): number => Math.max(1, Math.ceil(line.length / ROW))

/** `undefined` when the whole text is short enough. */
export const promptStart = (text: string): string | undefined => {
  const lines = text.split("\n")
  let rows = 0
  for (const [index, line] of lines.entries()) {
    const left = MAX_ROWS - rows
    rows += rowsOf(line)
    if (rows <= MAX_ROWS) continue
    const part = left === 0 ? undefined : cutAtWord(line, left * ROW)
    return [...lines.slice(0, index), ...(part === undefined ? [] : [`${part} ...`])].join("\n")
  }
  return undefined
}

/** Not after the first word that does not fit; a text without spaces is cut inside. */
const cutAtWord = (line: string, length: number): string => {
  const cut = line.slice(0, length)
  const space = cut.lastIndexOf(" ")
  return space > length / 2 ? cut.slice(0, space) : cut
}
