/** Open questions and permissions of the session, one at a time, so that none can scroll out of sight. */
import { useSignal } from "@preact/signals"
import { dock } from "../client/store.ts"
import { IconButton } from "../ui/icon-button.tsx"
import { words } from "../words.ts"
import { Approval } from "./approval.tsx"
import { Permission } from "./permission.tsx"
import { Question } from "./question.tsx"

export const Interactions = () => {
  const at = useSignal(0)
  const { interactions } = dock.value
  const index = Math.min(at.value, interactions.length - 1)
  const one = interactions[index]
  if (!one) return null
  const pager = interactions.length > 1 && (
    <span class="pager">
      <IconButton
        small
        icon="back"
        label={words.formerQuestion}
        disabled={index === 0}
        onClick={() => (at.value = index - 1)}
      />
      {words.ofAsked(index + 1, interactions.length)}
      <IconButton
        small
        icon="chevron"
        label={words.nextQuestion}
        disabled={index === interactions.length - 1}
        onClick={() => (at.value = index + 1)}
      />
    </span>
  )
  if (one.kind === "approval") return <Approval key={one.id} interaction={one} pager={pager} />
  return one.kind === "permission" ? (
    <Permission key={one.id} interaction={one} pager={pager} />
  ) : (
    <Question key={one.id} interaction={one} pager={pager} />
  )
}
