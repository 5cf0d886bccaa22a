/** What the agent thinks: one line, closed until the person opens it. */
import { seconds } from "../ui/clock.ts"
import { Fold } from "../ui/fold.tsx"
import { words } from "../words.ts"
import { Markdown } from "./lazy-markdown.tsx"

/** The last bold heading is what the agent thinks about. */
const subjectOf = (text: string): string | undefined =>
  [...text.matchAll(/^\*\*([^*\n]+)\*\*/gm)].at(-1)?.[1]

export const Reasoning = ({
  id,
  text,
  tookMs,
  isGrowing,
}: {
  readonly id: string
  readonly text: string
  readonly tookMs: number | undefined
  readonly isGrowing: boolean
}) => (
  <Fold
    name={id}
    icon="idea"
    verb={isGrowing ? words.thinking : words.thoughtVerb}
    subject={isGrowing || tookMs === undefined ? subjectOf(text) : words.thought(seconds(tookMs))}
    state={isGrowing ? "running" : "done"}
  >
    <div class="reasoning" tabIndex={0} role="group" aria-label={words.thoughtVerb} data-scrollable>
      <Markdown text={text} isGrowing={isGrowing} />
    </div>
  </Fold>
)
