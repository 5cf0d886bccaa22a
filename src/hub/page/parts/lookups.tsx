/** Finished look-ups in a row: one line, the single ones on demand. */
import type { ToolData } from "../../../wire/clients/conversation.ts"
import { lookupWords } from "../../view/tool-words.ts"
import { Fold } from "../ui/fold.tsx"
import { Tool } from "./tool.tsx"

export const Lookups = ({ tools }: { readonly tools: readonly ToolData[] }) => (
  <Fold name={`${tools[0]?.callId ?? ""}/lookups`} icon="search" verb={lookupWords(tools)}>
    <div class="children">
      {tools.map((tool) => (
        <Tool key={tool.callId} tool={tool} isLast={false} />
      ))}
    </div>
  </Fold>
)
