/** A layer over the page: it traps the focus, closes by Escape or a press outside, and gives the focus back. */
import type { ComponentChildren } from "preact"
import { useEffect, useRef } from "preact/hooks"

export const Layer = ({
  label,
  class: extra,
  onClose,
  children,
}: {
  readonly label: string
  readonly class: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}) => {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const dialog = ref.current
    if (!dialog) return
    const before = document.activeElement
    dialog.showModal()
    return () => {
      dialog.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  return (
    <dialog
      ref={ref}
      class={`layer ${extra}`}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onPointerDown={(event) => {
        if (event.target === ref.current) onClose()
      }}
    >
      {children}
    </dialog>
  )
}
