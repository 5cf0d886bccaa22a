/** A question of the agent: options as numbered rows, several at once where the agent allows it. */
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import type { Interaction, Option } from "../../../wire/clients/conversation.ts"
import { openQuestion, request } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { Icon } from "../ui/icon.tsx"
import { Spinner } from "../ui/spinner.tsx"
import { words } from "../words.ts"
import { AskedWhere } from "./asked-where.tsx"

const optionsOf = ({ options }: Interaction): readonly Option[] =>
  (options ?? []).map((option) => (typeof option === "string" ? { label: option } : option))

export const Question = ({
  interaction,
  pager,
}: {
  readonly interaction: Interaction
  readonly pager: ComponentChildren
}) => {
  const [sending, setSending] = useState<string | undefined>(undefined)
  const [problem, setProblem] = useState("")
  const [chosen, setChosen] = useState<readonly string[]>([])
  const options = optionsOf(interaction)
  const isMultiple = interaction.multiple === true
  const answer = async (text: string) => {
    setSending(text)
    const reply = await request({ type: "answer", id: interaction.id, answer: text })
    setSending(undefined)
    if (!reply.ok) setProblem(reply.error.code === "too-late" ? words.tooLate : reply.error.message)
  }
  const toggle = (label: string) =>
    setChosen(chosen.includes(label) ? chosen.filter((one) => one !== label) : [...chosen, label])
  return (
    <section class="card is-asking" aria-label={words.asks} data-question={interaction.id}>
      <div class="card-head">
        <Icon name="asks" />
        <span>{interaction.childSessionId ? words.subAgentAsks : words.asks}</span>
        {pager}
      </div>
      <AskedWhere interaction={interaction} />
      <p class="card-text">{interaction.text}</p>
      <div class="options">
        {options.map(({ label, description }, index) => (
          <button
            key={label}
            type="button"
            class="option"
            role={isMultiple ? "checkbox" : undefined}
            aria-checked={isMultiple ? chosen.includes(label) : undefined}
            data-option={index + 1}
            disabled={sending !== undefined}
            onClick={() => (isMultiple ? toggle(label) : void answer(label))}
          >
            {sending === label ? (
              <Spinner size={16} />
            ) : isMultiple ? (
              <span class="option-box">
                {chosen.includes(label) && <Icon name="check" size={12} />}
              </span>
            ) : (
              <kbd>{index + 1}</kbd>
            )}
            <span>
              {label}
              {description && <span class="option-more">{description}</span>}
            </span>
          </button>
        ))}
      </div>
      <div class="card-foot">
        <span class="card-note" role="status">
          {problem !== ""
            ? problem
            : interaction.id === openQuestion.value?.id
              ? words.typeBelow
              : words.asksElsewhere}
        </span>
        {isMultiple && (
          <Button
            small
            kind="primary"
            disabled={chosen.length === 0}
            onClick={() => void answer(chosen.join(", "))}
          >
            {words.answer}
          </Button>
        )}
      </div>
    </section>
  )
}
