/** Closes something that lies over the page: by a press outside of it, or by Escape. */
import { useEffect } from "preact/hooks"

export const useDismiss = (
  ref: { readonly current: HTMLElement | null },
  isOpen: boolean,
  close: () => void,
): void => {
  useEffect(() => {
    if (!isOpen) return
    const onPress = (event: Event) => {
      if (!ref.current?.contains(event.target as Node)) close()
    }
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return
      event.stopPropagation()
      close()
    }
    document.addEventListener("pointerdown", onPress)
    document.addEventListener("keydown", onKey, { capture: true })
    return () => {
      document.removeEventListener("pointerdown", onPress)
      document.removeEventListener("keydown", onKey, { capture: true })
    }
  }, [isOpen])
}
