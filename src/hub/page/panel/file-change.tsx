/** One changed file: a head that sticks, and its diff. A large one is closed until the person opens it. */
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks"
import { parseDiff } from "../../view/patch.ts"
import { insertText } from "../client/drafts.ts"
import { wantedPlace } from "../client/open-path.ts"
import { DiffLines } from "../parts/diff-lines.tsx"
import { languageOfPath } from "../parts/highlight.ts"
import { Button } from "../ui/button.tsx"
import { Delta } from "../ui/delta.tsx"
import { Icon } from "../ui/icon.tsx"
import { Path } from "../ui/path.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"

export interface DiffFile {
  readonly path: string
  readonly status: string
  readonly diff?: string
}

const LARGE_LINES = 2000
const LETTERS: Readonly<Record<string, string>> = {
  added: "A",
  modified: "M",
  deleted: "D",
  renamed: "R",
}

/** The former path of a renamed file; only its name when the folder is the same. */
const relativeTo = (path: string, from: string): string => {
  const folder = path.slice(0, path.lastIndexOf("/") + 1)
  return from.startsWith(folder) ? from.slice(folder.length) : from
}

/** git names the files and shows no lines. */
const isBinary = (diff: string): boolean => diff === "" || /^Binary files .* differ$/m.test(diff)

type Range = readonly [from: number, to: number]

export const FileChange = ({
  file,
  isSideBySide,
}: {
  readonly file: DiffFile
  readonly isSideBySide: boolean
}) => {
  const { path, status, diff = "" } = file
  const parsed = useMemo(() => parseDiff(diff), [diff])
  const lines = diff.split("\n").length
  const [isOpen, setOpen] = useState(lines <= LARGE_LINES)
  const [selected, setSelected] = useState<Range | undefined>(undefined)
  const section = useRef<HTMLElement>(null)
  const wanted = wantedPlace.value
  useLayoutEffect(() => {
    if (wanted?.path !== path) return
    wantedPlace.value = undefined
    setOpen(true)
    if (wanted.line !== undefined) setSelected([wanted.line, wanted.line])
    section.current?.scrollIntoView({ block: "start" })
  }, [wanted])
  const from = parsed?.[0]?.from
  const counts = parsed?.reduce(
    (sum, { added, removed }) => ({ added: sum.added + added, removed: sum.removed + removed }),
    { added: 0, removed: 0 },
  )
  const select = (line: number, extend: boolean) =>
    setSelected(
      extend && selected
        ? [Math.min(selected[0], line), Math.max(selected[1], line)]
        : selected?.[0] === line && selected[1] === line
          ? undefined
          : [line, line],
    )
  const ask = () => {
    if (selected) insertText(`${words.linesOf(path, ...selected)} `)
    setSelected(undefined)
  }
  return (
    <section ref={section} class={`file ${isOpen ? "is-open" : ""}`} aria-label={path}>
      <button
        type="button"
        class="file-head"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="chevron" size={14} class="fold-chevron" />
        <span class={`file-status is-${status}`} title={status}>
          {LETTERS[status] ?? "M"}
        </span>
        <Path path={path} />
        {from !== undefined && (
          <span class="file-from">{words.renamedFrom(visible(relativeTo(path, from)))}</span>
        )}
        <span class="grow" />
        {lines > LARGE_LINES && <span class="fold-meta">{words.largeFile(lines)}</span>}
        {counts && <Delta {...counts} />}
      </button>
      {isOpen && (
        <div class="diff">
          {parsed?.map((one) => (
            <DiffLines
              key={one.path}
              file={one}
              language={languageOfPath(path)}
              onSelect={select}
              selected={selected}
              isSideBySide={isSideBySide}
            />
          ))}
          {!parsed && isBinary(diff) && <p class="file-note">{words.binary}</p>}
          {!parsed && !isBinary(diff) && (
            <>
              <p class="file-note">{words.unparsed}</p>
              <pre class="file-raw" tabIndex={0} data-scrollable>
                {diff}
              </pre>
            </>
          )}
          {selected && (
            <div class="file-ask">
              <Button small kind="primary" icon="asks" onClick={ask}>
                {words.askAboutLines}
              </Button>
            </div>
          )}
        </div>
      )}
    </section>
  )
}
