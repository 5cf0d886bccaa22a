/** On iOS the keyboard covers the page instead of resizing it: the height of the app follows the visible part. */

export const watchViewport = (): void => {
  const visible = globalThis.visualViewport
  if (!visible) return
  const update = () => {
    const isTyping = /^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")
    const covered = innerHeight - visible.height
    const style = document.documentElement.style
    if (isTyping && visible.scale === 1 && covered > 80)
      style.setProperty("--app-h", `${visible.height}px`)
    else style.removeProperty("--app-h")
  }
  visible.addEventListener("resize", update)
  addEventListener("focusout", update)
}
