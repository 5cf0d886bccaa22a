/** The lines of one file's diff: numbers, sign, text with marked words or with the colours of its language. */
import { useEffect, useMemo } from "preact/hooks"
import type { DiffLine, FileDiff } from "../../view/patch.ts"
import { sideRows } from "../../view/side-rows.ts"
import { words } from "../words.ts"
import { highlight, loadHighlighter } from "./highlight.ts"

const SIGNS = { added: "+", removed: "-", same: " " } as const

export interface DiffLinesProps {
  readonly file: FileDiff
  readonly language: string
  /** Only the first lines. */
  readonly limit?: number | undefined
  /** The person selects lines, by their number in the new file. */
  readonly onSelect?: (line: number, extend: boolean) => void
  readonly selected?: readonly [from: number, to: number] | undefined
  /** Before on the left, after on the right. */
  readonly isSideBySide?: boolean
}

export const DiffLines = ({
  file,
  language,
  limit,
  onSelect,
  selected,
  isSideBySide = false,
}: DiffLinesProps) => {
  useEffect(loadHighlighter, [])
  let rest = limit ?? Number.POSITIVE_INFINITY
  return (
    <div
      class="diff-scroll"
      tabIndex={0}
      role="group"
      aria-label={words.diffOf(file.path)}
      data-scrollable
    >
      <table class={`diff-table ${isSideBySide ? "is-sides" : ""}`}>
        {file.hunks.map((hunk) => {
          const lines = hunk.lines.slice(0, Math.max(0, rest))
          rest -= hunk.lines.length
          const first = hunk.lines[0]
          return (
            lines.length > 0 && (
              <tbody key={hunk.header}>
                <tr class="diff-hunk">
                  <td colSpan={isSideBySide ? 1 : 2} />
                  <td colSpan={isSideBySide ? 3 : 1}>
                    {words.lineNumber(first?.after ?? first?.before ?? 1)}
                  </td>
                </tr>
                {isSideBySide
                  ? sideRows(lines).map(({ left, right }, index) => (
                      <tr key={index} class={right && isIn(right, selected) ? "is-selected" : ""}>
                        <Side line={left} number={left?.before} language={language} />
                        <Side
                          line={right}
                          number={right?.after}
                          language={language}
                          onSelect={onSelect}
                        />
                      </tr>
                    ))
                  : lines.map((line, index) => (
                      <Line
                        key={index}
                        line={line}
                        language={language}
                        onSelect={onSelect}
                        isSelected={isIn(line, selected)}
                      />
                    ))}
              </tbody>
            )
          )
        })}
      </table>
    </div>
  )
}

const isIn = (line: DiffLine, range: readonly [number, number] | undefined): boolean => {
  const at = line.after ?? line.before
  return range !== undefined && at !== undefined && at >= range[0] && at <= range[1]
}

/** One line of one side: its number and its text; empty where the other side has more lines. */
const Side = ({
  line,
  number,
  language,
  onSelect,
}: {
  readonly line: DiffLine | undefined
  readonly number: number | undefined
  readonly language: string
  readonly onSelect?: DiffLinesProps["onSelect"]
}) => {
  const kind = line ? `diff-line is-${line.type}` : "diff-none"
  return (
    <>
      <td class={`diff-number ${kind}`}>
        <LineNumber number={number} onSelect={onSelect} />
      </td>
      <td class={`diff-text ${kind}`}>{line && <LineText line={line} language={language} />}</td>
    </>
  )
}

const LineNumber = ({
  number,
  onSelect,
}: {
  readonly number: number | undefined
  readonly onSelect: DiffLinesProps["onSelect"]
}) =>
  onSelect && number !== undefined ? (
    <button
      type="button"
      aria-label={words.lineNumber(number)}
      onClick={(event) => onSelect(number, event.shiftKey)}
    >
      {number}
    </button>
  ) : (
    <>{number}</>
  )

const Line = ({
  line,
  language,
  onSelect,
  isSelected,
}: {
  readonly line: DiffLine
  readonly language: string
  readonly onSelect: DiffLinesProps["onSelect"]
  readonly isSelected: boolean
}) => {
  const { type, before, after } = line
  const at = after ?? before
  return (
    <tr class={`diff-line is-${type} ${isSelected ? "is-selected" : ""}`}>
      <td class="diff-number">{before}</td>
      <td class="diff-number">
        {onSelect && at !== undefined ? (
          <button
            type="button"
            aria-label={words.lineNumber(at)}
            onClick={(event) => onSelect(at, event.shiftKey)}
          >
            {after}
          </button>
        ) : (
          after
        )}
      </td>
      <td class="diff-text">
        <span class="diff-sign">{SIGNS[type]}</span>
        <LineText line={line} language={language} />
      </td>
    </tr>
  )
}

const LineText = ({ line, language }: { readonly line: DiffLine; readonly language: string }) => {
  const { text, marks } = line
  const html = marks.length === 0 ? highlight(text, language) : undefined
  const pieces = useMemo(() => piecesOf(text, marks), [text, marks])
  if (html) return <span dangerouslySetInnerHTML={{ __html: html }} />
  return (
    <span>
      {pieces.map(({ piece, marked }, index) =>
        marked ? <mark key={index}>{piece}</mark> : piece,
      )}
    </span>
  )
}

const piecesOf = (text: string, marks: DiffLine["marks"]) => {
  const pieces: { readonly piece: string; readonly marked: boolean }[] = []
  let at = 0
  for (const [start, end] of marks) {
    pieces.push({ piece: text.slice(at, start), marked: false })
    pieces.push({ piece: text.slice(start, end), marked: true })
    at = end
  }
  pieces.push({ piece: text.slice(at), marked: false })
  return pieces.filter(({ piece }) => piece !== "")
}
