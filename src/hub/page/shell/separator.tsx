/** The line between conversation and panel: dragged by the pointer, or moved by the arrow keys. */
import { panelWidth, setPanelWidth } from "../client/layout.ts"
import { words } from "../words.ts"

const STEP = 16

export const Separator = () => {
  const onKey = (event: KeyboardEvent) => {
    const by: Readonly<Record<string, number>> = { ArrowLeft: STEP, ArrowRight: -STEP }
    const change = by[event.key]
    if (change !== undefined) setPanelWidth(panelWidth.value + change)
    else if (event.key === "Home") setPanelWidth(0)
    else if (event.key === "End") setPanelWidth(innerWidth)
    else return
    event.preventDefault()
  }
  const onPress = (event: PointerEvent) => {
    const element = event.currentTarget as HTMLElement
    element.setPointerCapture(event.pointerId)
    const move = ({ clientX }: PointerEvent) => setPanelWidth(innerWidth - clientX)
    const end = () => {
      element.removeEventListener("pointermove", move)
      element.removeEventListener("pointerup", end)
    }
    element.addEventListener("pointermove", move)
    element.addEventListener("pointerup", end)
  }
  return (
    <div
      class="separator"
      role="separator"
      aria-orientation="vertical"
      aria-label={words.separator}
      aria-valuenow={panelWidth.value}
      aria-valuemin={360}
      aria-valuemax={Math.round(innerWidth * 0.6)}
      tabIndex={0}
      onKeyDown={onKey}
      onPointerDown={onPress}
    />
  )
}
