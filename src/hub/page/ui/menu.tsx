/** A button that opens a list of actions. Arrow keys move in it; Escape and a press outside close it. */
import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { IconButton } from "./icon-button.tsx"
import { useDismiss } from "./use-dismiss.ts"

export type MenuItem = readonly [label: string, act: () => void]

export const Menu = ({
  label,
  items,
  class: extra = "",
  isSmall = false,
  children,
}: {
  readonly label: string
  readonly items: readonly MenuItem[]
  readonly class?: string
  readonly isSmall?: boolean
  /** Facts below the actions. */
  readonly children?: ComponentChildren
}) => {
  const [isOpen, setOpen] = useState(false)
  const place = useRef<HTMLSpanElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const focusButton = () => place.current?.querySelector("button")?.focus()
  useDismiss(place, isOpen, () => {
    setOpen(false)
    if (place.current?.contains(document.activeElement)) focusButton()
  })
  useEffect(() => {
    if (isOpen) list.current?.querySelector("button")?.focus()
  }, [isOpen])
  const onKey = (event: KeyboardEvent) => {
    const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 }
    const by = steps[event.key]
    if (by === undefined) return
    event.preventDefault()
    const all = [...(list.current?.querySelectorAll("button") ?? [])]
    const at = all.findIndex((one) => one === document.activeElement)
    all.at((at + by) % all.length)?.focus()
  }
  return (
    <span class={`menu-place ${extra} ${isOpen ? "is-open" : ""}`} ref={place}>
      <IconButton
        small={isSmall}
        icon="more"
        label={label}
        expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      />
      {isOpen && (
        <div class="menu">
          <div ref={list} role="menu" aria-label={label} onKeyDown={onKey}>
            {items.map(([name, act]) => (
              <button
                key={name}
                type="button"
                role="menuitem"
                class="menu-item"
                onClick={() => {
                  setOpen(false)
                  focusButton()
                  act()
                }}
              >
                {name}
              </button>
            ))}
          </div>
          {children}
        </div>
      )}
    </span>
  )
}
