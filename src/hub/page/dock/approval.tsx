/** An approval that a workflow waits for. No key grants it and the focus never moves to it. */
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import type { Interaction } from "../../../wire/clients/conversation.ts"
import { mayUse, request } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { Icon } from "../ui/icon.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { AskedWhere } from "./asked-where.tsx"

const textOf = (item: unknown): string => (typeof item === "string" ? item : JSON.stringify(item))

export const Approval = ({
  interaction,
  pager,
}: {
  readonly interaction: Interaction
  readonly pager: ComponentChildren
}) => {
  const [isSending, setSending] = useState(false)
  const [problem, setProblem] = useState("")
  const { executionId = "", text = "", items = [] } = interaction
  const decide = async (approve: boolean) => {
    setSending(true)
    const result = await request({ type: "approve-execution", executionId, approve })
    setSending(false)
    if (!result.ok) setProblem(result.error.message)
  }
  return (
    <section class="card is-asking" aria-label={words.approvalTitle}>
      <div class="card-head">
        <Icon name="permission" />
        <span>{words.approvalTitle}</span>
        {pager}
      </div>
      <AskedWhere interaction={interaction} />
      <p class="card-text">{visible(text)}</p>
      {items.map((item, index) => (
        <pre key={index} class="pattern" tabIndex={0} data-scrollable>
          {visible(textOf(item))}
        </pre>
      ))}
      {problem !== "" && (
        <p class="card-note" role="status">
          {problem}
        </p>
      )}
      {mayUse("approve-execution") && (
        <div class="decide">
          <Button kind="bad" disabled={isSending} onClick={() => void decide(false)}>
            {words.deny}
          </Button>
          <span class="grow" />
          <Button kind="primary" disabled={isSending} onClick={() => void decide(true)}>
            {words.approve}
          </Button>
        </div>
      )}
    </section>
  )
}
