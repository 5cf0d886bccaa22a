/** The element that the person reads: it stays where it is when something above or below it changes. */

export interface Anchor {
  readonly element: Element
  /** Of the turn that contains it, for when the element itself is replaced. */
  readonly turn: string
  /** Distance of the element's top from the top of the view. */
  readonly top: number
  readonly turnTop: number
}

const topIn = (scroller: Element, element: Element): number =>
  element.getBoundingClientRect().top - scroller.getBoundingClientRect().top

/** The first anchor whose end is in view. Anchors inside a turn are found only in turns that are in view. */
export const findAnchor = (scroller: Element): Anchor | undefined => {
  const { top, bottom } = scroller.getBoundingClientRect()
  for (const turn of scroller.querySelectorAll<HTMLElement>("[data-turn]")) {
    const area = turn.getBoundingClientRect()
    if (area.bottom <= top) continue
    if (area.top >= bottom) return undefined
    const inside = [...turn.querySelectorAll("[data-anchor]")]
    const element = inside.find((one) => one.getBoundingClientRect().bottom > top) ?? turn
    return {
      element,
      turn: turn.dataset["turn"] ?? "",
      top: topIn(scroller, element),
      turnTop: topIn(scroller, turn),
    }
  }
  return undefined
}

/** How far the anchor has moved since it was found; `undefined` when it is not in the document. */
export const driftOf = (scroller: Element, anchor: Anchor): number | undefined => {
  if (anchor.element.isConnected) return topIn(scroller, anchor.element) - anchor.top
  const turn = [...scroller.querySelectorAll<HTMLElement>("[data-turn]")].find(
    (one) => one.dataset["turn"] === anchor.turn,
  )
  return turn && topIn(scroller, turn) - anchor.turnTop
}
