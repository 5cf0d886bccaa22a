/** A button with words. */
import type { ComponentChildren } from "preact"
import { Icon, type IconName } from "./icon.tsx"

export interface ButtonProps {
  readonly children: ComponentChildren
  readonly onClick?: () => void
  readonly kind?: "plain" | "primary" | "ghost" | "bad"
  readonly icon?: IconName
  readonly small?: boolean
  readonly disabled?: boolean
  readonly type?: "button" | "submit"
}

export const Button = ({
  children,
  onClick,
  kind = "plain",
  icon,
  small = false,
  disabled = false,
  type = "button",
}: ButtonProps) => (
  <button
    type={type}
    class={`button is-${kind} ${small ? "is-small" : ""}`}
    disabled={disabled}
    onClick={onClick}
  >
    {icon && <Icon name={icon} size={15} />}
    {children}
  </button>
)
