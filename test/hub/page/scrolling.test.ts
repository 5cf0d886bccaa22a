/** The window over the turns, and when the view follows the end. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { initialFollow, NEAR_END, stepFollow } from "../../../src/hub/page/log/follow.ts"
import { ESTIMATE, heightOf, offsetOf, windowRange } from "../../../src/hub/page/log/window.ts"

const input = fc
  .record({
    heights: fc.array(fc.option(fc.integer({ min: 20, max: 3000 }), { nil: undefined }), {
      minLength: 1,
      maxLength: 60,
    }),
    scrollTop: fc.integer({ min: 0, max: 60_000 }),
    viewHeight: fc.integer({ min: 200, max: 1600 }),
  })
  .map(({ heights, scrollTop, viewHeight }) => ({
    ids: heights.map((_, index) => `t${index}`),
    heights: new Map(
      heights.flatMap((height, index) =>
        height === undefined ? [] : [[`t${index}`, height] as const],
      ),
    ),
    scrollTop,
    viewHeight,
  }))

describe("the window over the turns", () => {
  test("spacers and shown turns together are as high as all turns", () => {
    fc.assert(
      fc.property(input, (given) => {
        const { from, to, above, below } = windowRange(given)
        const height = (ids: readonly string[]) =>
          ids.reduce((sum, id) => sum + heightOf(given.heights, id), 0)
        expect(above + height(given.ids.slice(from, to)) + below).toBe(height(given.ids))
        expect(above).toBe(height(given.ids.slice(0, from)))
      }),
    )
  })

  test("every turn that is in view is in the document", () => {
    fc.assert(
      fc.property(input, (given) => {
        const { from, to } = windowRange(given)
        for (const [index, id] of given.ids.entries()) {
          const top = offsetOf(given.ids, given.heights, id) ?? 0
          const bottom = top + heightOf(given.heights, id)
          const isInView = bottom > given.scrollTop && top < given.scrollTop + given.viewHeight
          if (isInView) expect(index >= from && index < to).toBe(true)
        }
      }),
    )
  })

  test("a turn that was not measured counts with the estimate", () => {
    expect(heightOf(new Map(), "t1")).toBe(ESTIMATE)
    expect(offsetOf(["a", "b"], new Map([["a", 100]]), "b")).toBe(100)
    expect(offsetOf(["a"], new Map(), "missing")).toBeUndefined()
  })
})

describe("following the end", () => {
  test("a move up leaves the end at once, and a move back to the end follows again", () => {
    const away = stepFollow(initialFollow, { type: "scrolled", up: true, toEnd: 100 })
    expect(away.follows).toBe(false)
    expect(stepFollow(away, { type: "scrolled", up: false, toEnd: NEAR_END }).follows).toBe(true)
  })

  test("new text never makes the view follow, it only marks that there is something new", () => {
    const away = stepFollow(initialFollow, { type: "left", toEnd: 0 })
    const grown = stepFollow(away, { type: "grew" })
    expect(grown).toEqual({ follows: false, hasNew: true })
  })

  test("sending a prompt follows the end", () => {
    const away = stepFollow(initialFollow, { type: "left", toEnd: 0 })
    expect(stepFollow(away, { type: "joined" })).toEqual(initialFollow)
  })

  test("a scroll down that does not reach the end leaves the choice as it is", () => {
    const away = stepFollow(initialFollow, { type: "left", toEnd: 0 })
    expect(stepFollow(away, { type: "scrolled", up: false, toEnd: 500 }).follows).toBe(false)
    expect(stepFollow(initialFollow, { type: "scrolled", up: false, toEnd: 500 }).follows).toBe(
      true,
    )
  })
})
