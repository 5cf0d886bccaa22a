/** A changed file: its path, the number of lines, and the diff. */
import type { ToolData } from "../../../wire/clients/conversation.ts"
import { toolWords } from "../../view/tool-words.ts"
import { workspace } from "../client/open-path.ts"
import { Delta } from "../ui/delta.tsx"
import { Fold } from "../ui/fold.tsx"
import { Path } from "../ui/path.tsx"
import { lazy } from "../ui/lazy.tsx"
import { Elapsed } from "./elapsed.tsx"
import { argOf, foldState, resultText } from "./tool-state.ts"
import { toolIcons } from "./tool-icon.ts"

const Diff = lazy(async () => (await import("./diff.tsx")).Diff)

export const Edit = ({ tool, isOpen }: { readonly tool: ToolData; readonly isOpen: boolean }) => {
  const { kind, verb, subject } = toolWords(tool, workspace.value)
  const state = foldState(tool)
  const content = argOf(tool, "content")
  const written = kind === "write" && typeof content === "string" ? content : undefined
  const counts = tool.files?.reduce(
    (sum, { added, removed }) => ({ added: sum.added + added, removed: sum.removed + removed }),
    { added: 0, removed: 0 },
  )
  const failure = state === "failed" ? resultText(tool) : undefined
  const body = failure ?? tool.diff ?? written
  return (
    <Fold
      name={tool.callId}
      icon={toolIcons[kind]}
      verb={verb}
      subject={<Path path={subject} />}
      state={state}
      initiallyOpen={failure !== undefined || (isOpen && tool.diff !== undefined)}
      meta={
        <>
          {counts && <Delta {...counts} />}
          {state === "running" && <Elapsed since={tool.startedAt} />}
        </>
      }
    >
      {body !== undefined && body !== "" && (
        <Diff
          name={`${tool.callId}/diff`}
          text={failure ?? tool.diff ?? asAdded(subject, written ?? "")}
          path={subject}
        />
      )}
    </Fold>
  )
}

/** A new file as a diff: every line is added. */
const asAdded = (path: string, content: string): string => {
  const lines = content.replace(/\n$/, "").split("\n")
  return `--- /dev/null\n+++ b/${path}\n@@ -0,0 +1,${lines.length} @@\n${lines.map((line) => `+${line}`).join("\n")}\n`
}
