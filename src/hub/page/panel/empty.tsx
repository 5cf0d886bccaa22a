/** A panel without content: a sentence that says why, and at most one action. */
import type { ComponentChildren } from "preact"
import { Icon, type IconName } from "../ui/icon.tsx"
import { Spinner } from "../ui/spinner.tsx"

export const Empty = ({
  icon,
  title,
  text,
  isBusy = false,
  children,
}: {
  readonly icon: IconName
  readonly title: string
  readonly text?: string | undefined
  readonly isBusy?: boolean
  readonly children?: ComponentChildren
}) => (
  <div class="empty" role="status">
    {isBusy ? <Spinner size={22} /> : <Icon name={icon} size={22} />}
    <b>{title}</b>
    {text !== undefined && <p>{text}</p>}
    {children}
  </div>
)
