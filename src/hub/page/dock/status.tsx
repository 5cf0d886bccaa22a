/** What the agent does now, how far its plan is, and for how long. */
import { dock } from "../client/store.ts"
import { Elapsed } from "../parts/elapsed.tsx"
import { Icon } from "../ui/icon.tsx"
import { Spinner } from "../ui/spinner.tsx"
import { words } from "../words.ts"

export const Status = () => {
  const { status } = dock.value
  if (!status || status.kind === "waiting") return null
  const { kind, sentence, plan, since } = status
  return (
    <div class="status">
      {kind === "away" ? <Icon name="plug" /> : <Spinner size={15} />}
      <span class="status-words">{kind === "stopping" ? words.stopping : sentence}</span>
      {plan && <span class="status-plan">{words.ofTotal(plan.done, plan.total)}</span>}
      <span class="status-time">
        <Elapsed since={since} as="stopwatch" />
      </span>
    </div>
  )
}
