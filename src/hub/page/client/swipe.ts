/** On a phone a swipe closes what lies over the conversation: the drawer to the left, the panel to the right. */
import { closeDrawer, isDrawerOpen } from "./drawer.ts"
import { isPhone } from "./layout.ts"
import { route } from "./navigation.ts"
import { type Point, swipeOf } from "./swipe-rule.ts"

/** Code, diffs and tabs that scroll sideways keep the touch for themselves. */
const scrollsSideways = (target: EventTarget | null): boolean => {
  for (
    let one = target instanceof Element ? target : null;
    one !== null && one !== document.body;
    one = one.parentElement
  )
    if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "hidden")
      return true
  return false
}

export const watchSwipes = (): void => {
  let from: Point | undefined
  const pointOf = (touch: Touch | undefined): Point | undefined =>
    touch && { x: touch.clientX, y: touch.clientY }
  const options = { passive: true }
  document.addEventListener(
    "touchstart",
    ({ touches, target }) => {
      const isOurs = isPhone() && touches.length === 1 && !scrollsSideways(target)
      from = isOurs ? pointOf(touches[0]) : undefined
    },
    options,
  )
  document.addEventListener(
    "touchend",
    ({ changedTouches }) => {
      const to = pointOf(changedTouches[0])
      const swipe = from && to ? swipeOf(from, to) : undefined
      from = undefined
      if (swipe === "left") closeDrawer()
      else if (swipe === "right" && !isDrawerOpen.value && route.value.panel) history.back()
    },
    options,
  )
}
