/** One conversation in the side: its state, title and age. */
import type { SidebarRow } from "../../view/sidebar-rows.ts"
import { pathOf } from "../routes.ts"
import { age } from "../ui/clock.ts"
import { Icon, type IconName } from "../ui/icon.tsx"
import { Spinner } from "../ui/spinner.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { RowMenu } from "./row-menu.tsx"

const channelIcons: Readonly<Record<string, IconName>> = {
  telegram: "telegram",
  slack: "telegram",
  workflow: "workflow",
}

export const SessionRow = ({
  row,
  isCurrent,
  onFollow,
}: {
  readonly row: SidebarRow
  readonly isCurrent: boolean
  readonly onFollow: (event: MouseEvent) => void
}) => {
  const { title, state, channelType, updatedAt, depth } = row
  // What the person looks at is not news.
  const shown = isCurrent && state === "unseen" ? "idle" : state
  const icon = channelIcons[channelType]
  return (
    <li class="row-place">
      <a
        class={`row is-${shown} ${depth === 1 ? "is-child" : ""}`}
        href={pathOf(row)}
        aria-current={isCurrent ? "page" : undefined}
        title={visible(title)}
        onClick={onFollow}
      >
        <span class="row-dot">{shown === "working" && <Spinner size={12} />}</span>
        {icon && <Icon name={icon} size={13} />}
        <span class="row-title">{visible(title)}</span>
        {words.rowState[shown] !== "" && <span class="unseen">, {words.rowState[shown]}</span>}
        {updatedAt > 0 && <span class="row-age">{age(updatedAt, Date.now())}</span>}
      </a>
      <RowMenu row={row} />
    </li>
  )
}
