/** A permission that the agent needs. No key grants it and the focus never moves to it. */
import { useComputed } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import type { Interaction } from "../../../wire/clients/conversation.ts"
import type { PermissionReply } from "../../../wire/permission.ts"
import { commandOf } from "../../view/dock.ts"
import { request, view } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { Icon } from "../ui/icon.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { AskedWhere } from "./asked-where.tsx"

/** OpenCode names its permissions; the actions of Sandpiper have a sentence. */
const titleOf = ({ title, tool }: Interaction): string => {
  const name = title ?? tool ?? ""
  return Object.hasOwn(words.permissions, name) ? (words.permissions[name] ?? "") : visible(name)
}

export const Permission = ({
  interaction,
  pager,
}: {
  readonly interaction: Interaction
  readonly pager: ComponentChildren
}) => {
  const [isSending, setSending] = useState(false)
  const [problem, setProblem] = useState("")
  const command = useComputed(() => commandOf(view.value, interaction)).value
  const decide = async (reply: PermissionReply) => {
    setSending(true)
    const result = await request({ type: "permission", id: interaction.id, reply })
    setSending(false)
    if (!result.ok)
      setProblem(result.error.code === "too-late" ? words.tooLate : result.error.message)
  }
  const button = (kind: "ghost" | "plain" | "primary", reply: PermissionReply, label: string) => (
    <Button
      kind={kind === "ghost" ? "bad" : kind}
      disabled={isSending}
      onClick={() => void decide(reply)}
    >
      {label}
    </Button>
  )
  return (
    <section class="card is-asking" aria-label={words.permissionTitle}>
      <div class="card-head">
        <Icon name="permission" />
        <span>{interaction.childSessionId ? words.subAgentPermission : words.permissionTitle}</span>
        {pager}
      </div>
      <AskedWhere interaction={interaction} />
      <p class="card-text">{titleOf(interaction)}</p>
      {command !== undefined && (
        <pre class="pattern" tabIndex={0} role="group" aria-label={words.command} data-scrollable>
          {visible(command)}
        </pre>
      )}
      {(interaction.patterns ?? []).map((pattern) => (
        <pre key={pattern} class="pattern" tabIndex={0} data-scrollable>
          {visible(pattern)}
        </pre>
      ))}
      {problem !== "" && (
        <p class="card-note" role="status">
          {problem}
        </p>
      )}
      <div class="decide">
        {button("ghost", "reject", words.deny)}
        <span class="grow" />
        {button("plain", "always", words.allowAlways)}
        {button("primary", "once", words.allowOnce)}
      </div>
    </section>
  )
}
