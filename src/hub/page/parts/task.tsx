/** A sub-agent: what it does, in the order in which it does it. While it runs, only its last steps are shown. */
import type { ToolData } from "../../../wire/clients/conversation.ts"
import { toolWords } from "../../view/tool-words.ts"
import type { Block } from "../../view/turns.ts"
import { Fold } from "../ui/fold.tsx"
import { words } from "../words.ts"
import { Blocks } from "./blocks.tsx"
import { Elapsed } from "./elapsed.tsx"
import { Markdown } from "./lazy-markdown.tsx"
import { argOf, foldState, resultText } from "./tool-state.ts"

const LAST_STEPS = 4

export const Task = ({
  tool,
  blocks,
  waits,
}: {
  readonly tool: ToolData
  readonly blocks: readonly Block[]
  /** An interaction of this sub-agent is open. */
  readonly waits: boolean
}) => {
  const state = foldState(tool)
  const isRunning = state === "running"
  const steps = blocks.filter(({ type }) => type !== "text" && type !== "reasoning").length
  const hidden = isRunning ? Math.max(0, blocks.length - LAST_STEPS) : 0
  const kind = tool.agent ?? argOf(tool, "subagent_type")
  const result = isRunning ? undefined : withoutTags(resultText(tool))
  return (
    <Fold
      name={tool.callId}
      icon="bot"
      verb={toolWords(tool).verb}
      subject={toolWords(tool).subject}
      state={waits ? "waits" : state}
      initiallyOpen={isRunning}
      meta={
        <>
          {typeof kind === "string" && <span>{kind}</span>}
          {steps > 0 && <span>{words.steps(steps)}</span>}
          <Elapsed since={tool.startedAt} until={isRunning ? undefined : tool.endedAt} />
        </>
      }
    >
      <div class="children">
        {hidden > 0 && <p class="children-more">{words.stepsAbove(hidden)}</p>}
        <Blocks blocks={blocks.slice(hidden)} isStreaming={isRunning} isLast={false} />
        {result !== undefined && result !== "" && (
          <div class="children-result">
            <Markdown text={result} />
          </div>
        )}
      </div>
    </Fold>
  )
}

/** OpenCode wraps the result of a task in tags and adds its metadata, which are for the model. */
const withoutTags = (text: string | undefined): string | undefined =>
  text
    ?.replaceAll(/<task_metadata>[\s\S]*?<\/task_metadata>/g, "")
    .replaceAll(/<\/?task_result>/g, "")
    .trim()
