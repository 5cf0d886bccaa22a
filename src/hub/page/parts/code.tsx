/** A block of code: language, copy, and colours that come later without changing its size. */
import { useEffect, useRef, useState } from "preact/hooks"
import { CopyButton } from "../ui/copy-button.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { whenIdle } from "../ui/when-idle.ts"
import { words } from "../words.ts"
import { highlight, isHighlighted, languageOfPath, loadHighlighter } from "./highlight.ts"

const MAX_LINES = 400
const FIRST_LINES = 200

export const Code = ({
  code,
  language,
  isGrowing = false,
}: {
  readonly code: string
  readonly language: string
  /** More text may follow: colours wait, because each of them costs the whole block. */
  readonly isGrowing?: boolean
}) => {
  const ref = useRef<HTMLDivElement>(null)
  const [near, setNear] = useState(false)
  const [all, setAll] = useState(false)
  const [wrap, setWrap] = useState(false)
  useEffect(() => {
    const element = ref.current
    if (!element || near) return
    let cancel = () => {}
    const observer = new IntersectionObserver(
      (entries) => {
        if (!entries.some(({ isIntersecting }) => isIntersecting)) return
        observer.disconnect()
        // Not while the person scrolls: the text is there already.
        cancel = whenIdle(() => {
          setNear(true)
          loadHighlighter()
        })
      },
      { rootMargin: "600px" },
    )
    observer.observe(element)
    return () => {
      observer.disconnect()
      cancel()
    }
  }, [near])
  const lines = code.split("\n")
  const isCut = !all && lines.length > MAX_LINES
  const shown = isCut ? lines.slice(0, FIRST_LINES).join("\n") : code
  const known = languageOfPath(`.${language}`)
  const hasColours = !isGrowing && (near || isHighlighted(shown, known))
  const html = hasColours ? highlight(shown, known) : undefined
  return (
    <div class="code" ref={ref} data-anchor>
      <div class="code-bar">
        <span>{language === "" ? words.code : language}</span>
        <span class="code-acts">
          <IconButton
            small
            icon="wrap"
            class="only-phone"
            label={words.wrapLines}
            pressed={wrap}
            onClick={() => setWrap(!wrap)}
          />
          <CopyButton text={() => code} label={words.copyCode} />
        </span>
      </div>
      <pre
        class={wrap ? "is-wrapped" : ""}
        tabIndex={0}
        role="group"
        aria-label={words.codeIn(language)}
        data-scrollable
      >
        {html ? <code dangerouslySetInnerHTML={{ __html: html }} /> : <code>{shown}</code>}
      </pre>
      {isCut && (
        <button type="button" class="code-more" onClick={() => setAll(true)}>
          {words.showAllLines(lines.length)}
        </button>
      )}
    </div>
  )
}
