/** A question that was asked, and its answer. */
import type { ToolData } from "../../../wire/clients/conversation.ts"
import { Icon } from "../ui/icon.tsx"
import { words } from "../words.ts"
import { argOf } from "./tool-state.ts"

const questionsOf = (tool: ToolData): readonly string[] => {
  const listed = argOf(tool, "questions")
  if (!Array.isArray(listed)) return []
  return listed.flatMap((one: unknown) => {
    const question = (one as { readonly question?: unknown } | null)?.question
    return typeof question === "string" ? [question] : []
  })
}

/** The tool's result for the model has the answers as `"question"="answer"`. */
const answersOf = (tool: ToolData): readonly string[] =>
  typeof tool.result === "string"
    ? [...tool.result.matchAll(/="([^"]*)"/g)].map(([, answer]) => answer ?? "")
    : []

export const Asked = ({ tool }: { readonly tool: ToolData }) => {
  const answers = answersOf(tool)
  if (tool.status === "pending" || tool.status === "running") return null
  return (
    <div class="asked" data-anchor>
      {questionsOf(tool).map((question, index) => (
        <div key={index} class="asked-one">
          <Icon name="asks" />
          <div>
            <p>
              <span class="asked-verb">{words.asked}</span> {question}
            </p>
            <p class="asked-answer">
              {answers[index] === undefined
                ? words.notAnswered
                : words.youAnswered(answers[index] ?? "")}
            </p>
          </div>
        </div>
      ))}
    </div>
  )
}
