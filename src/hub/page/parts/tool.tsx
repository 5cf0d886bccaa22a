/** One call of a tool, by kind. An unknown tool shows its arguments and its result. */
import type { ToolData } from "../../../wire/clients/conversation.ts"
import { toolWords } from "../../view/tool-words.ts"
import { workspace } from "../client/open-path.ts"
import { Fold } from "../ui/fold.tsx"
import { Path } from "../ui/path.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { Bash } from "./bash.tsx"
import { Edit } from "./edit.tsx"
import { Elapsed } from "./elapsed.tsx"
import { Output } from "./output.tsx"
import { argsText, foldState, resultText } from "./tool-state.ts"
import { toolIcons } from "./tool-icon.ts"

export interface ToolProps {
  readonly tool: ToolData
  readonly output?: string | undefined
  /** Of the turn that streams or is last. */
  readonly isLast: boolean
}

export const Tool = ({ tool, output, isLast }: ToolProps) => {
  const { kind, verb, subject } = toolWords(tool, workspace.value)
  if (kind === "command") return <Bash tool={tool} {...(output !== undefined && { output })} />
  if (kind === "edit" || kind === "write") return <Edit tool={tool} isOpen={isLast} />
  const state = foldState(tool)
  const result = resultText(tool)
  const isPath = kind === "read" || kind === "list"
  const [firstLine = ""] = (result ?? "").split("\n", 1)
  return (
    <Fold
      name={tool.callId}
      icon={toolIcons[kind]}
      verb={verb}
      subject={
        state === "failed" ? (
          visible(firstLine)
        ) : isPath ? (
          <Path path={subject} />
        ) : (
          visible(subject)
        )
      }
      mono={kind === "search" || kind === "other"}
      state={state}
      meta={
        <>
          {tool.error === "canceled" && <span>{words.toolStopped}</span>}
          <Elapsed
            since={tool.startedAt}
            until={state === "running" ? undefined : (tool.endedAt ?? tool.startedAt)}
          />
        </>
      }
    >
      {(result !== undefined || kind === "other") && (
        <>
          {kind === "other" && (
            <Output name={`${tool.callId}/args`} text={argsText(tool)} isGrowing={false} />
          )}
          {result !== undefined && result !== "" && (
            <Output name={`${tool.callId}/output`} text={result} isGrowing={false} />
          )}
        </>
      )}
    </Fold>
  )
}
