/** The agent's plan: a card while the turn runs, one closed line afterwards. */
import type { PlanItem } from "../../view/turns.ts"
import { Fold } from "../ui/fold.tsx"
import { Icon } from "../ui/icon.tsx"
import { words } from "../words.ts"

const STATES: Readonly<Record<string, string>> = {
  completed: "is-completed",
  in_progress: "is-current",
  cancelled: "is-cancelled",
}

const Items = ({ items }: { readonly items: readonly PlanItem[] }) => (
  <ol class="plan-items">
    {items.map(({ content, status }, index) => (
      <li key={index} class={STATES[status] ?? ""}>
        <span class="plan-tick">
          {status === "completed" && <Icon name="check" size={11} />}
          {status === "in_progress" && <span class="plan-dot" />}
        </span>
        <span>
          {content}
          <span class="unseen">{status === "completed" ? `, ${words.planDone}` : ""}</span>
        </span>
      </li>
    ))}
  </ol>
)

export const Plan = ({
  id,
  items,
  isRunning,
}: {
  readonly id: string
  readonly items: readonly PlanItem[]
  readonly isRunning: boolean
}) => {
  const done = items.filter(({ status }) => status === "completed").length
  const count = words.ofTotal(done, items.length)
  if (!isRunning)
    return (
      <Fold
        name={id}
        icon="plan"
        verb={words.plan}
        subject={done === items.length ? words.planDone : undefined}
        meta={<span>{count}</span>}
      >
        <Items items={items} />
      </Fold>
    )
  return (
    <section class="plan" aria-label={words.plan} data-anchor>
      <div class="plan-head">
        <Icon name="plan" />
        <span>{words.plan}</span>
        <span class="fold-meta">{count}</span>
      </div>
      <Items items={items} />
    </section>
  )
}
