/** A command and its output. Open while it runs and when it failed. */
import type { ToolData } from "../../../wire/clients/conversation.ts"
import { toolWords } from "../../view/tool-words.ts"
import { Fold } from "../ui/fold.tsx"
import { words } from "../words.ts"
import { Elapsed } from "./elapsed.tsx"
import { Output } from "./output.tsx"
import { foldState, resultText } from "./tool-state.ts"

export const Bash = ({ tool, output }: { readonly tool: ToolData; readonly output?: string }) => {
  const { subject, verb } = toolWords(tool)
  const state = foldState(tool)
  const isRunning = state === "running"
  const text = isRunning ? (output ?? "") : (resultText(tool) ?? output ?? "")
  const failed = state === "failed" || (tool.exit !== undefined && tool.exit !== 0)
  const isLong = subject.includes("\n") || subject.length > 90
  const hasBody = text !== "" || isLong
  return (
    <Fold
      name={tool.callId}
      icon="shell"
      verb={isRunning ? words.running : verb}
      subject={subject.split("\n", 1)[0]}
      mono
      state={failed ? "failed" : state}
      initiallyOpen={isRunning || failed}
      meta={
        <>
          {tool.exit !== undefined && tool.exit !== 0 && (
            <span class="fold-bad">{words.exit(tool.exit)}</span>
          )}
          {tool.error === "canceled" && <span>{words.toolStopped}</span>}
          <Elapsed since={tool.startedAt} until={isRunning ? undefined : tool.endedAt} />
        </>
      }
    >
      {hasBody && (
        <>
          {isLong && (
            <pre class="command" tabIndex={0} data-scrollable>
              {subject}
            </pre>
          )}
          {text !== "" && (
            <Output name={`${tool.callId}/output`} text={text} isGrowing={isRunning} />
          )}
        </>
      )}
    </Fold>
  )
}
