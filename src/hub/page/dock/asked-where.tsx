/** The conversation that asks, when it is not the open one: its title, as a link to it. */
import type { Interaction } from "../../../wire/clients/conversation.ts"
import { go, isPlainClick } from "../client/navigation.ts"
import { channels } from "../client/slices.ts"
import { channel, session } from "../client/store.ts"
import { pathOf } from "../routes.ts"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"

export const AskedWhere = ({ interaction }: { readonly interaction: Interaction }) => {
  const { channel: key } = interaction
  if (key === channel.value) return null
  const asking = channels.value.find((one) => one.key === key)
  const path = pathOf({ session: session.value, channel: key })
  return (
    <p class="card-where">
      {words.askedIn}{" "}
      <a
        href={path}
        onClick={(event) => {
          if (!isPlainClick(event)) return
          event.preventDefault()
          go(path)
        }}
      >
        {visible(asking?.title ?? asking?.lastText ?? key)}
      </a>
    </p>
  )
}
