/** A button that is only an icon. Its label is its name for a screen reader and its tooltip. */
import type { ComponentChildren } from "preact"
import { Icon, type IconName } from "./icon.tsx"

export interface IconButtonProps {
  readonly icon: IconName
  readonly label: string
  readonly onClick: (event: MouseEvent) => void
  readonly small?: boolean
  readonly pressed?: boolean
  readonly expanded?: boolean
  readonly disabled?: boolean
  readonly class?: string
  readonly children?: ComponentChildren
}

export const IconButton = ({
  icon,
  label,
  onClick,
  small = false,
  pressed,
  expanded,
  disabled = false,
  class: extra = "",
  children,
}: IconButtonProps) => (
  <button
    type="button"
    class={`icon-button ${small ? "is-small" : ""} ${extra}`}
    aria-label={label}
    title={label}
    aria-pressed={pressed}
    aria-expanded={expanded}
    disabled={disabled}
    onClick={onClick}
  >
    <Icon name={icon} size={small ? 15 : 17} />
    {children}
  </button>
)
