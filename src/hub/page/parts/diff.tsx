/** A unified diff as a table of lines with marked words. Text that is not a valid diff is shown as it is. */
import { useMemo } from "preact/hooks"
import { type FileDiff, parseDiff } from "../../view/patch.ts"
import { useKeptChoice } from "../ui/kept-choice.ts"
import { words } from "../words.ts"
import { DiffLines } from "./diff-lines.tsx"
import { languageOfPath } from "./highlight.ts"

const FIRST_LINES = 16

const countOf = (files: readonly FileDiff[]): number =>
  files.reduce(
    (sum, { hunks }) => sum + hunks.reduce((lines, hunk) => lines + hunk.lines.length, 0),
    0,
  )

export const Diff = ({
  name,
  text,
  path,
}: {
  /** Whether all of it is shown is kept under this name. */
  readonly name: string
  readonly text: string
  readonly path: string
}) => {
  const files = useMemo(() => parseDiff(text), [text])
  const [all = false, setAll] = useKeptChoice(name)
  if (!files)
    return (
      <div class="output">
        <pre tabIndex={0} role="group" aria-label={words.output} data-scrollable>
          {text}
        </pre>
      </div>
    )
  const total = countOf(files)
  const isCut = !all && total > FIRST_LINES
  return (
    <div class="diff is-card">
      {files.map((file) => (
        <DiffLines
          key={file.path}
          file={file}
          language={languageOfPath(path)}
          limit={isCut ? FIRST_LINES : undefined}
        />
      ))}
      {isCut && (
        <button type="button" class="diff-more" onClick={() => setAll(true)}>
          {words.showAllLines(total)}
        </button>
      )}
    </div>
  )
}
