/** What keeps drawing cheap and steady: icons of one path, kept results, the start of a long prompt, estimated heights. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { promptStart } from "../../../src/hub/page/log/prompt-start.ts"
import { ESTIMATE, estimateFrom } from "../../../src/hub/page/log/window.ts"
import { createTextCache } from "../../../src/hub/page/parts/text-cache.ts"
import { iconPath, type Shape } from "../../../src/hub/page/ui/icon-path.ts"

describe("an icon", () => {
  test("lines, circles, rectangles and points become the data of one path", () => {
    const shapes: readonly Shape[] = [
      ["path", { d: "M1 2h3" }],
      ["line", { x1: "1", y1: "2", x2: "3", y2: "4" }],
      ["circle", { cx: "12", cy: "12", r: "10" }],
      ["rect", { x: "3", y: "4", width: "10", height: "8", rx: "2" }],
      ["polyline", { points: "1 2 3 4" }],
    ]
    expect(iconPath(shapes)).toBe(
      "M1 2h3" +
        "M1 2L3 4" +
        "M2 12a10 10 0 1 0 20 0a10 10 0 1 0 -20 0z" +
        "M5 4h6a2 2 0 0 1 2 2v4a2 2 0 0 1 -2 2h-6a2 2 0 0 1 -2 -2v-4a2 2 0 0 1 2 -2z" +
        "M1 2 3 4",
    )
  })

  test("a shape with a relative start keeps its place behind another one", () => {
    const cross: readonly Shape[] = [
      ["path", { d: "M18 6 6 18" }],
      ["path", { d: "m6 6 12 12" }],
      ["path", { d: "m12.5.5v4" }],
    ]
    expect(iconPath(cross)).toBe("M18 6 6 18M6 6l12 12M12.5 .5v4")
  })

  test("a shape that is not known is an error, so that no icon loses a line", () => {
    expect(() => iconPath([["text", {}]])).toThrow("shape text")
  })
})

describe("what was made from a text", () => {
  test("is made once while it is kept, and the texts that were not used are dropped first", () => {
    const cache = createTextCache<string>(6)
    const made: string[] = []
    const get = (text: string) =>
      cache.get(text, () => {
        made.push(text)
        return text.toUpperCase()
      })
    expect([get("aa"), get("bb"), get("aa"), get("cc"), get("aa")]).toEqual([
      "AA",
      "BB",
      "AA",
      "CC",
      "AA",
    ])
    expect(made).toEqual(["aa", "bb", "cc"])
    get("dd")
    expect([cache.has("bb"), cache.has("aa"), cache.has("dd")]).toEqual([false, true, true])
  })

  test("a text that is longer than all that may be kept is made and not kept", () => {
    const cache = createTextCache<number>(3)
    expect(cache.get("long text", () => 1)).toBe(1)
    expect(cache.has("long text")).toBe(false)
  })
})

describe("the start of a long prompt", () => {
  test("twelve short lines are shown whole, of thirteen the first twelve", () => {
    const lines = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}`)
    expect(promptStart(lines(12).join("\n"))).toBeUndefined()
    expect(promptStart(lines(13).join("\n"))).toBe(lines(12).join("\n"))
  })

  test("a long paragraph is cut between two words", () => {
    const text = "word ".repeat(1000)
    const start = promptStart(text)
    expect(start?.length).toBeLessThan(900)
    expect(start).toMatch(/word \.\.\.$/)
  })

  test("it is always shorter than the text and begins as the text does", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 3000 }), (text) => {
        const start = promptStart(text)
        if (start === undefined) return
        expect(start.length).toBeLessThan(text.length + 4)
        expect(text.startsWith(start.replace(/ \.\.\.$/, ""))).toBe(true)
      }),
    )
  })
})

describe("the height of turns that were not measured", () => {
  const heights = (...all: readonly number[]) =>
    new Map(all.map((height, index) => [`t${index}`, height]))

  test("follows the measured ones once there are a few of them", () => {
    expect(estimateFrom(heights(100, 100), ESTIMATE)).toBe(ESTIMATE)
    expect(estimateFrom(heights(100, 200, 300, 200, 200), ESTIMATE)).toBe(200)
  })

  test("an estimate that is nearly right stays, so that the turns do not move with every measure", () => {
    expect(estimateFrom(heights(210, 220, 230, 210, 230), 200)).toBe(200)
  })
})
