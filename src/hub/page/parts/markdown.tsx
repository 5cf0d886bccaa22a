/** A text of the agent. Blocks are keyed by their position; only the last ones are rendered again as the text grows. */
import type { Token, Tokens } from "marked"
import { memo } from "../ui/memo.ts"
import { useLayoutEffect, useMemo, useRef } from "preact/hooks"
import { heal } from "./heal.ts"
import { Code } from "./code.tsx"
import { emptyLexed, hasDefinitions, type Lexed, lexMore, lexWhole } from "./lexer.ts"
import { linkPaths } from "./link-paths.ts"
import { headingShift, proseHtml } from "./prose-html.ts"
import { sanitizeProse } from "./sanitize.ts"
import { createTextCache } from "./text-cache.ts"

export const Markdown = memo(
  ({ text, isGrowing = false }: { readonly text: string; readonly isGrowing?: boolean }) => {
    const lexed = useRef(emptyLexed)
    const whole = !isGrowing && hasDefinitions(text)
    const isNew = lexed.current === emptyLexed && !isGrowing
    lexed.current = isNew
      ? lexedBefore.get(text, () => lexWhole(text))
      : whole
        ? lexWhole(text)
        : lexMore(lexed.current, text)
    const blocks = lexed.current.blocks.filter(({ type }) => type !== "space" && type !== "def")
    const shift = headingShift(blocks)
    return (
      <div class="prose">
        {blocks.map((block, index) => (
          <Block
            key={index}
            block={block}
            shift={shift}
            isGrowing={isGrowing && index === blocks.length - 1}
            isAlone={!whole}
          />
        ))}
      </div>
    )
  },
)

const isCode = (block: Token): block is Tokens.Code => block.type === "code"

interface BlockProps {
  readonly block: Token
  readonly shift: number
  readonly isGrowing: boolean
  /** No other block of the text changes what it says. */
  readonly isAlone: boolean
}

const Block = memo(
  ({ block, shift, isGrowing, isAlone }: BlockProps) =>
    isCode(block) ? (
      <Code
        code={block.text}
        language={(block.lang ?? "").split(/[\s{:]/, 1)[0] ?? ""}
        isGrowing={isGrowing}
      />
    ) : (
      <Prose block={block} shift={shift} isGrowing={isGrowing} isAlone={isAlone} />
    ),
  (before, after) =>
    before.isGrowing === after.isGrowing &&
    (before.shift === after.shift || after.block.type !== "heading") &&
    before.block.type === after.block.type &&
    before.block.raw === after.block.raw &&
    // A definition elsewhere may have changed the links of the same text.
    (after.isGrowing || !before.block.raw.includes("]")),
)

/** Half-written emphasis, code and links of the last block are closed, so that it does not flicker. */
const healed = (block: Token): Token => lexWhole(heal(block.raw)).blocks[0] ?? block

const lexedBefore = createTextCache<Lexed>(300_000)
const shownBefore = createTextCache<string>(1_000_000)

const Prose = ({ block, shift, isGrowing, isAlone }: BlockProps) => {
  const html = useMemo(() => {
    if (isGrowing) return sanitizeProse(proseHtml(healed(block), shift))
    const make = () => sanitizeProse(proseHtml(block, shift))
    return isAlone ? shownBefore.get(`${shift}\n${block.raw}`, make) : make()
  }, [block, shift, isGrowing, isAlone])
  const ref = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    if (!isGrowing && ref.current) linkPaths(ref.current)
  }, [html, isGrowing])
  return (
    <div ref={ref} class="prose-block" data-anchor dangerouslySetInnerHTML={{ __html: html }} />
  )
}
