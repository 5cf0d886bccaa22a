/** The changes of the workspace: every file with its diff. Selected lines can be asked about. */
import { useEffect, useRef, useState } from "preact/hooks"
import { isSideBySide, toggleSideBySide } from "../client/layout.ts"
import { showPanel } from "../client/navigation.ts"
import { view } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { Delta } from "../ui/delta.tsx"
import { Icon } from "../ui/icon.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { base, changedFiles } from "./changed-files.ts"
import { Empty } from "./empty.tsx"
import { FileChange, type DiffFile } from "./file-change.tsx"
import { useAnswer } from "./use-answer.ts"

/** Two columns need this much. */
const WIDE = 720

/** Whether the element is wide enough for two columns; it is measured again when its size changes. */
const useIsWide = (): readonly [(element: HTMLElement | null) => void, boolean] => {
  const [isWide, setWide] = useState(false)
  const [element, setElement] = useState<HTMLElement | null>(null)
  useEffect(() => {
    if (!element) return
    const observer = new ResizeObserver(() => setWide(element.clientWidth >= WIDE))
    observer.observe(element)
    return () => observer.disconnect()
  }, [element])
  return [setElement, isWide]
}

const filesOf = (result: unknown): readonly DiffFile[] | undefined => {
  const files =
    (result as { readonly files?: unknown } | undefined)?.files ??
    (result as { readonly data?: { readonly files?: unknown } } | undefined)?.data?.files
  return Array.isArray(files) ? (files as readonly DiffFile[]) : undefined
}

export const Changes = () => {
  const diff = useAnswer({ type: "diff" })
  const [place, isWide] = useIsWide()
  const listed = changedFiles.value
  // The former diff stays on the screen while the next one is made, so that nothing jumps.
  const last = useRef<readonly DiffFile[] | undefined>(undefined)
  const [asked, setAsked] = useState<unknown>(undefined)
  const files = filesOf(diff.result)
  if (files) last.current = files
  const isOpen = view.value.link.state === "open"
  useEffect(() => {
    if (!isOpen || asked === listed) return
    setAsked(listed)
    diff.ask()
  }, [listed, isOpen])

  const branch = (view.value.state["git"] as { readonly branch?: string } | undefined)?.branch
  const shown = last.current
  if (diff.problem !== undefined && !shown)
    return (
      <Empty icon="alert" title={words.changesFailed} text={diff.problem}>
        <Button small onClick={diff.askAgain}>
          {words.tryAgain}
        </Button>
      </Empty>
    )
  if (!shown) return <Empty icon="file" title={words.loading} isBusy />
  if (shown.length === 0)
    return (
      <Empty
        icon="check"
        title={words.noChanges}
        text={base.value === undefined ? words.noChangesText : words.noChangesAgainst(base.value)}
      />
    )
  const total = listed.reduce(
    (sum, { additions = 0, deletions = 0 }) => ({
      added: sum.added + additions,
      removed: sum.removed + deletions,
    }),
    { added: 0, removed: 0 },
  )
  return (
    <div class="changes" ref={place}>
      <div class="changes-sum">
        {branch !== undefined && (
          <span class="changes-branch">
            <Icon name="branch" size={14} />
            {visible(branch)}
          </span>
        )}
        {base.value !== undefined && (
          <span class="not-phone changes-base">{words.against(visible(base.value))}</span>
        )}
        {total.added + total.removed > 0 && <Delta {...total} />}
        <span class="grow" />
        <IconButton
          small
          icon="columns"
          class="not-phone"
          label={words.sideBySide}
          pressed={isSideBySide.value}
          onClick={toggleSideBySide}
        />
        <Button small onClick={() => showPanel("review")}>
          {words.review}
        </Button>
      </div>
      {shown.map((file) => (
        <FileChange key={file.path} file={file} isSideBySide={isWide && isSideBySide.value} />
      ))}
    </div>
  )
}
