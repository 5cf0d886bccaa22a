/** The output of a command: its end, and on demand all of it. While it grows, its height only grows. */
import { useLayoutEffect, useRef } from "preact/hooks"
import { useKeptChoice } from "../ui/kept-choice.ts"
import { words } from "../words.ts"
import { ansiPieces } from "./ansi.ts"

const LAST_LINES = 9

export const Output = ({
  name,
  text,
  isGrowing,
}: {
  /** Whether all of it is shown is kept under this name. */
  readonly name: string
  readonly text: string
  readonly isGrowing: boolean
}) => {
  const [all = false, setAll] = useKeptChoice(name)
  const ref = useRef<HTMLPreElement>(null)
  const least = useRef(0)
  const lines = text.replace(/\n$/, "").split("\n")
  const hidden = all ? 0 : Math.max(0, lines.length - LAST_LINES)
  const pieces = ansiPieces(lines.slice(hidden).join("\n"))
  useLayoutEffect(() => {
    const element = ref.current
    if (!element) return
    least.current = isGrowing ? Math.max(least.current, element.offsetHeight) : 0
    element.style.minHeight = least.current === 0 ? "" : `${least.current}px`
  })
  return (
    <div class="output">
      {hidden > 0 && (
        <button type="button" class="output-more" onClick={() => setAll(true)}>
          {words.linesAbove(hidden)}
        </button>
      )}
      <pre ref={ref} tabIndex={0} role="group" aria-label={words.output} data-scrollable>
        {pieces.map(({ text: piece, style }, index) =>
          style === "" ? (
            piece
          ) : (
            <span key={index} class={style}>
              {piece}
            </span>
          ),
        )}
      </pre>
    </div>
  )
}
