/** What the agent thinks: one line, closed until the person opens it. */
import { Fold } from "../ui/fold.tsx"
import { words } from "../words.ts"
import { Markdown } from "./lazy-markdown.tsx"

/** The last bold heading is what the agent thinks about. */
const subjectOf = (text: string): string | undefined =>
  [...text.matchAll(/^\*\*([^*\n]+)\*\*/gm)].at(-1)?.[1]

export const Reasoning = ({
  text,
  isGrowing,
}: {
  readonly text: string
  readonly isGrowing: boolean
}) => (
  <Fold
    icon="idea"
    verb={isGrowing ? words.thinking : words.thoughtVerb}
    subject={subjectOf(text)}
    state={isGrowing ? "running" : "done"}
  >
    <div class="reasoning" tabIndex={0} role="group" aria-label={words.thoughtVerb} data-scrollable>
      <Markdown text={text} isGrowing={isGrowing} />
    </div>
  </Fold>
)
