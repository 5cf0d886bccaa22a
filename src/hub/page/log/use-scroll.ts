/**
 * The scrolling of the log: at the end it follows, elsewhere the anchor stays where it is. Corrections happen in the
 * observer of sizes and after rendering, before the frame is painted, and never by a timer.
 */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { type Anchor, driftOf, findAnchor } from "./anchor.ts"
import { type Follow, type FollowEvent, initialFollow, stepFollow } from "./follow.ts"
import { type Place, readPlace, writePlace } from "./kept-place.ts"
import {
  ESTIMATE,
  estimateFrom,
  isSameRange,
  offsetOf,
  windowRange,
  type WindowRange,
} from "./window.ts"

export interface Scroll {
  readonly range: WindowRange
  readonly isAway: boolean
  readonly hasNew: boolean
  readonly toEnd: () => void
  readonly leave: () => void
  /** Brings a turn into the document and its prompt into view. */
  readonly toTurn: (id: string) => void
}

export interface ScrollOptions {
  readonly scroller: { readonly current: HTMLElement | null }
  readonly content: { readonly current: HTMLElement | null }
  readonly ids: readonly string[]
  /** Another conversation starts at its end. */
  readonly conversation: string
  /** Changes whenever something is added. */
  readonly version: unknown
  readonly onNearTop: () => void
}

const TINY = 0.5

export const useScroll = (options: ScrollOptions): Scroll => {
  const { scroller, content, ids, conversation, version, onNearTop } = options
  const heights = useRef(new Map<string, number>())
  const estimate = useRef(ESTIMATE)
  const follow = useRef(initialFollow)
  const anchor = useRef<Anchor | undefined>(undefined)
  const lastTop = useRef(0)
  const wanted = useRef<Place | undefined>(undefined)
  const restored = useRef<unknown>(undefined)
  const latest = useRef({ ids, onNearTop })
  latest.current = { ids, onNearTop }
  const [shown, setShown] = useState(initialFollow)
  const [range, setRange] = useState<WindowRange>(() => initialRange(ids))

  const act = useCallback((event: FollowEvent) => {
    const next = stepFollow(follow.current, event)
    if (next === follow.current) return
    follow.current = next
    setShown(next)
  }, [])

  const toEndOf = (element: HTMLElement): number =>
    element.scrollHeight - element.scrollTop - element.clientHeight

  const moveTo = (element: HTMLElement, top: number) => {
    if (Math.abs(element.scrollTop - top) < TINY) return
    element.scrollTop = top
    lastTop.current = element.scrollTop
  }

  const measure = () => {
    const element = scroller.current
    const column = content.current
    if (!element || !column) return
    // Heights of another width are only estimates, which the next measure replaces.
    for (const turn of column.querySelectorAll<HTMLElement>("[data-turn]"))
      heights.current.set(turn.dataset["turn"] ?? "", turn.offsetHeight)
    estimate.current = estimateFrom(heights.current, estimate.current)
  }

  const updateRange = () => {
    const element = scroller.current
    if (!element) return
    const next = windowRange({
      ids: latest.current.ids,
      heights: heights.current,
      scrollTop: follow.current.follows ? element.scrollHeight : element.scrollTop,
      viewHeight: element.clientHeight,
      estimate: estimate.current,
    })
    setRange((before) => (isSameRange(before, next) ? before : next))
  }

  const placeOfTurn = (id: string): number | undefined =>
    offsetOf(latest.current.ids, heights.current, id, estimate.current)

  /**
   * Many turns were added before the anchor, which has left the document: to where it should be. The next render has it
   * again, and the next settling puts it exactly where it was.
   */
  const moveTowards = (element: HTMLElement, { turn, turnTop }: Anchor) => {
    const top = placeOfTurn(turn)
    if (top !== undefined) moveTo(element, top - turnTop)
  }

  /** Puts the view right after a change of layout. */
  const settle = () => {
    const element = scroller.current
    if (!element) return
    if (follow.current.follows) {
      moveTo(element, element.scrollHeight - element.clientHeight)
      anchor.current = undefined
    } else if (anchor.current) {
      const drift = driftOf(element, anchor.current)
      if (drift === undefined) moveTowards(element, anchor.current)
      else if (Math.abs(drift) >= TINY) moveTo(element, element.scrollTop + drift)
    }
    // A long way in one step: the turns in view came into the document only now.
    if (!follow.current.follows && !wanted.current) anchor.current ??= findAnchor(element)
    measure()
    updateRange()
  }
  const settleRef = useRef(settle)
  settleRef.current = settle

  useLayoutEffect(() => {
    heights.current.clear()
    anchor.current = undefined
    wanted.current = readPlace(conversation)
    act({ type: "joined" })
    const keep = () => writePlace(conversation, placeOf(follow.current, anchor.current))
    addEventListener("pagehide", keep)
    return () => {
      removeEventListener("pagehide", keep)
      keep()
    }
  }, [conversation])

  // The person returns to a conversation: once its turns are here, to the place that was read last.
  useLayoutEffect(() => {
    const place = wanted.current
    const element = scroller.current
    if (!place || !element || ids.length === 0) return
    wanted.current = undefined
    restored.current = version
    const top = placeOfTurn(place.turn)
    if (top === undefined) return
    act({ type: "left", toEnd: 0 })
    moveTo(element, top - place.top)
    updateRange()
    toPlace(element, place, () => (anchor.current = findAnchor(element)))
  }, [conversation, ids.length, ids[0]])

  // Every render may have changed the layout; a changed range renders again and settles again.
  useLayoutEffect(() => settleRef.current())

  useEffect(() => {
    // What arrives with the place is not news.
    if (restored.current !== version) act({ type: "grew" })
  }, [version])

  useEffect(() => {
    const element = scroller.current
    const column = content.current
    if (!element || !column) return
    const observer = new ResizeObserver(() => settleRef.current())
    observer.observe(column)
    observer.observe(element)
    const onScroll = () => {
      const top = element.scrollTop
      if (Math.abs(top - lastTop.current) < TINY) return
      act({ type: "scrolled", up: top < lastTop.current, toEnd: toEndOf(element) })
      lastTop.current = top
      if (!follow.current.follows) anchor.current = findAnchor(element)
      updateRange()
      if (top < 1.5 * element.clientHeight) latest.current.onNearTop()
    }
    const leave = () => {
      act({ type: "left", toEnd: toEndOf(element) })
      anchor.current ??= findAnchor(element)
    }
    const onWheel = (event: WheelEvent) => {
      if (event.deltaY < 0 && canScrollUp(element) && !inInner(event.target, element)) leave()
    }
    let touchY = 0
    const onTouchStart = (event: TouchEvent) => {
      touchY = event.touches[0]?.clientY ?? 0
    }
    const onTouchMove = (event: TouchEvent) => {
      if ((event.touches[0]?.clientY ?? 0) > touchY + 4 && canScrollUp(element)) leave()
    }
    const onKey = (event: KeyboardEvent) => {
      if (["PageUp", "ArrowUp", "Home"].includes(event.key) && canScrollUp(element)) leave()
    }
    // A fold opens under the pointer: what the person clicked stays in place.
    const onClick = (event: MouseEvent) => {
      if (
        (event.target as Element).closest(
          "[data-fold], .output-more, .diff-more, .code-more, .bubble-more",
        )
      )
        leave()
    }
    // By keyboard: the person reads what has the focus.
    const onFocus = ({ target }: FocusEvent) => {
      if (target !== element && (target as Element).matches(":focus-visible")) leave()
    }
    const onSelect = () => {
      const selection = getSelection()
      if (selection && !selection.isCollapsed && element.contains(selection.anchorNode)) leave()
    }
    element.addEventListener("scroll", onScroll, { passive: true })
    element.addEventListener("wheel", onWheel, { passive: true })
    element.addEventListener("touchstart", onTouchStart, { passive: true })
    element.addEventListener("touchmove", onTouchMove, { passive: true })
    element.addEventListener("keydown", onKey)
    element.addEventListener("click", onClick, { capture: true })
    element.addEventListener("focusin", onFocus)
    document.addEventListener("selectionchange", onSelect)
    return () => {
      observer.disconnect()
      element.removeEventListener("scroll", onScroll)
      element.removeEventListener("wheel", onWheel)
      element.removeEventListener("touchstart", onTouchStart)
      element.removeEventListener("touchmove", onTouchMove)
      element.removeEventListener("keydown", onKey)
      element.removeEventListener("click", onClick, { capture: true })
      element.removeEventListener("focusin", onFocus)
      document.removeEventListener("selectionchange", onSelect)
    }
  }, [])

  /** The turn is in the document after the next render; then its real place is known. */
  const toPlace = (element: HTMLElement, { turn: id, top }: Place, then: () => void) => {
    requestAnimationFrame(() => {
      const turn = [...element.querySelectorAll<HTMLElement>("[data-turn]")].find(
        (one) => one.dataset["turn"] === id,
      )
      if (turn) {
        const now = turn.getBoundingClientRect().top - element.getBoundingClientRect().top
        moveTo(element, element.scrollTop + now - top)
      }
      lastTop.current = element.scrollTop
      then()
    })
  }

  return {
    range: clampRange(range, ids.length),
    isAway: !shown.follows,
    hasNew: shown.hasNew,
    toEnd: () => {
      act({ type: "joined" })
      settle()
    },
    leave: () => act({ type: "left", toEnd: 0 }),
    toTurn: (id) => {
      const element = scroller.current
      const top = placeOfTurn(id)
      // The turn was just loaded: it is shown with the next render.
      if (top === undefined) wanted.current = { turn: id, top: 0 }
      if (!element || top === undefined) return
      act({ type: "left", toEnd: 0 })
      anchor.current = undefined
      moveTo(element, top)
      updateRange()
      toPlace(element, { turn: id, top: 0 }, () => (anchor.current = findAnchor(element)))
    },
  }
}

const placeOf = ({ follows }: Follow, anchor: Anchor | undefined): Place | undefined =>
  follows || !anchor ? undefined : { turn: anchor.turn, top: anchor.turnTop }

const canScrollUp = (element: Element): boolean => element.scrollTop > 0

/** A scroller inside the log that can still move up takes the wheel for itself. */
const inInner = (target: EventTarget | null, outer: Element): boolean => {
  const inner = (target as Element | null)?.closest("[data-scrollable]")
  return inner !== null && inner !== undefined && inner !== outer && inner.scrollTop > 0
}

/** The first render shows the end: the last turns fill any view. */
const FIRST_TURNS = 12

const initialRange = (ids: readonly string[]): WindowRange => ({
  from: Math.max(0, ids.length - FIRST_TURNS),
  to: ids.length,
  above: 0,
  below: 0,
})

/** The list may have changed since the range was computed: new turns at the end are shown at once. */
const clampRange = (range: WindowRange, count: number): WindowRange => {
  const reachedEnd = range.below === 0
  const to = reachedEnd ? count : Math.min(range.to, count)
  const from = Math.min(range.from, Math.max(0, to - 1))
  return { ...range, from, to }
}
