/** A unified diff as rows with line numbers and the changed words of each pair of lines. */
import { diffWordsWithSpace, parsePatch } from "diff"

export interface DiffLine {
  readonly type: "added" | "removed" | "same"
  readonly text: string
  readonly before?: number
  readonly after?: number
  /** Ranges of `text` that differ from the line on the other side. */
  readonly marks: readonly (readonly [start: number, end: number])[]
}

export interface DiffHunk {
  readonly header: string
  readonly lines: readonly DiffLine[]
}

export interface FileDiff {
  readonly path: string
  /** The former path of a renamed file. */
  readonly from?: string
  readonly added: number
  readonly removed: number
  readonly hunks: readonly DiffHunk[]
}

/** `undefined` when the text is not a valid unified diff: show the text instead. */
export const parseDiff = (text: string): readonly FileDiff[] | undefined => {
  const files = parse(text)
  return files?.map(({ oldFileName = "", newFileName = "", hunks }) => {
    const before = withoutPrefix(oldFileName)
    const after = withoutPrefix(newFileName)
    const path = after === "/dev/null" || after === "" ? before : after
    const lines = hunks.flatMap((hunk) => hunk.lines)
    const isRenamed = before !== path && before !== "/dev/null" && before !== ""
    return {
      path,
      ...(isRenamed && { from: before }),
      added: lines.filter((line) => line.startsWith("+")).length,
      removed: lines.filter((line) => line.startsWith("-")).length,
      hunks: hunks.map(hunkOf),
    }
  })
}

type ParsedFile = ReturnType<typeof parsePatch>[number]

const parse = (text: string): readonly ParsedFile[] | undefined => {
  try {
    const files = parsePatch(text)
    return files.some(({ hunks }) => hunks.length > 0) ? files : undefined
  } catch {
    // A hunk whose counts are wrong: agents write such diffs.
    return undefined
  }
}

const withoutPrefix = (name: string): string => name.replace(/^[ab]\//, "")

const hunkOf = ({
  oldStart,
  oldLines,
  newStart,
  newLines,
  lines,
}: ParsedFile["hunks"][number]): DiffHunk => {
  let before = oldStart
  let after = newStart
  const rows = lines
    .filter((line) => !line.startsWith("\\"))
    .map((line): DiffLine => {
      const text = line.slice(1)
      if (line.startsWith("+")) return { type: "added", text, after: after++, marks: [] }
      if (line.startsWith("-")) return { type: "removed", text, before: before++, marks: [] }
      return { type: "same", text, before: before++, after: after++, marks: [] }
    })
  return {
    header: `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
    lines: markWords(rows),
  }
}

/** Longer lines are not compared by word: it costs more than it shows. */
const MAX_MARKED = 500

/** Marks the words that differ where as many lines were removed as were added after them. */
const markWords = (rows: readonly DiffLine[]): readonly DiffLine[] => {
  const marked = [...rows]
  let start = 0
  while (start < rows.length) {
    const removed = countOf(rows, start, "removed")
    const added = countOf(rows, start + removed, "added")
    if (removed > 0 && removed === added) {
      for (let index = start; index < start + removed; index++) {
        const [left, right] = [rows[index], rows[index + removed]]
        if (!left || !right) continue
        const [leftMarks, rightMarks] = wordMarks(left.text, right.text)
        marked[index] = { ...left, marks: leftMarks }
        marked[index + removed] = { ...right, marks: rightMarks }
      }
    }
    start += Math.max(1, removed + added)
  }
  return marked
}

const countOf = (rows: readonly DiffLine[], start: number, type: DiffLine["type"]): number => {
  let count = 0
  while (rows[start + count]?.type === type) count += 1
  return count
}

type Marks = readonly (readonly [start: number, end: number])[]

const wordMarks = (before: string, after: string): readonly [Marks, Marks] => {
  if (before.length > MAX_MARKED || after.length > MAX_MARKED) return [[], []]
  const left: (readonly [number, number])[] = []
  const right: (readonly [number, number])[] = []
  let [leftEnd, rightEnd] = [0, 0]
  for (const { value, added, removed } of diffWordsWithSpace(before, after)) {
    if (!added) leftEnd += value.length
    if (!removed) rightEnd += value.length
    if (removed) left.push([leftEnd - value.length, leftEnd])
    if (added) right.push([rightEnd - value.length, rightEnd])
  }
  // Nothing in common: the colours of the lines say it already.
  return isWhole(left, before) || isWhole(right, after) ? [[], []] : [left, right]
}

const isWhole = ([first]: Marks, { length }: string): boolean =>
  first?.[0] === 0 && first[1] === length
