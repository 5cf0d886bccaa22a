/** Paths as people read them, and the two columns of a diff. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { parseDiff } from "../../../src/hub/view/patch.ts"
import { fromHome, placeIn, relativePath, workspaceOf } from "../../../src/hub/view/paths.ts"
import { sideRows } from "../../../src/hub/view/side-rows.ts"
import { swipeOf } from "../../../src/hub/page/client/swipe-rule.ts"

describe("a path", () => {
  test("a path below the workspace is shown without it, and every other path as it is", () => {
    expect(relativePath("/work/space/src/a.ts", "/work/space")).toBe("src/a.ts")
    expect(relativePath("/work/space", "/work/space")).toBe(".")
    expect(relativePath("/work/spaceship/a.ts", "/work/space")).toBe("/work/spaceship/a.ts")
    expect(relativePath("/etc/hosts", "")).toBe("/etc/hosts")
    expect(workspaceOf({ runner: { connected: true, directory: "/work/space" } })).toBe(
      "/work/space",
    )
    expect(workspaceOf({ runner: 7 })).toBe("")
  })

  test("a directory below a home directory starts with a tilde, and every other one stays as it is", () => {
    expect(fromHome("/home/ada/projects/shop")).toBe("~/projects/shop")
    expect(fromHome("/Users/ada")).toBe("~")
    expect(fromHome("/root/work")).toBe("~/work")
    for (const path of ["/rooted/work", "/workspace", "/srv/home/ada", "/home"])
      expect(fromHome(path)).toBe(path)
  })

  test("text that names a file is a place in it; a method, a version and an address are not", () => {
    const place = (text: string) => placeIn(text, "/work", ["README.md"])
    expect(place("src/a.ts:12")).toEqual({ path: "src/a.ts", line: 12 })
    expect(place("/work/src/a.test.tsx:12-20")).toEqual({ path: "src/a.test.tsx", line: 12 })
    expect(place("./b.py")).toBeUndefined()
    expect(place("./lib/b.py")).toEqual({ path: "lib/b.py" })
    expect(place("README.md")).toEqual({ path: "README.md" })
    for (const text of [
      "console.log",
      "1.2.3",
      "https://example.com/a.js",
      "a b/c.ts",
      "npm run x",
    ])
      expect([text, place(text)]).toEqual([text, undefined])
  })
})

describe("the two columns of a diff", () => {
  test("removed lines stand beside the added ones, and unchanged lines on both sides", () => {
    const diff = "--- a/f\n+++ b/f\n@@ -1,4 +1,3 @@\n one\n-two\n-three\n+zwei\n four\n"
    const rows = sideRows(parseDiff(diff)?.[0]?.hunks[0]?.lines ?? [])
    expect(rows.map(({ left, right }) => [left?.text, right?.text])).toEqual([
      ["one", "one"],
      ["two", "zwei"],
      ["three", undefined],
      ["four", "four"],
    ])
  })

  test("each column has all lines of its side in their order", () => {
    const line = fc.record({
      type: fc.constantFrom("added", "removed", "same"),
      text: fc.string(),
    })
    fc.assert(
      fc.property(fc.array(line), (drawn) => {
        const lines = drawn.map((one) => ({ ...one, marks: [] }))
        const rows = sideRows(lines)
        expect(rows.flatMap(({ left }) => left ?? [])).toEqual(
          lines.filter(({ type }) => type !== "added"),
        )
        expect(rows.flatMap(({ right }) => right ?? [])).toEqual(
          lines.filter(({ type }) => type !== "removed"),
        )
      }),
    )
  })
})

describe("a swipe", () => {
  test("64 pixels sideways are a swipe; less, or a move that is mostly vertical, is not", () => {
    const from = { x: 100, y: 100 }
    expect(swipeOf(from, { x: 30, y: 110 })).toBe("left")
    expect(swipeOf(from, { x: 170, y: 90 })).toBe("right")
    expect(swipeOf(from, { x: 150, y: 100 })).toBeUndefined()
    expect(swipeOf(from, { x: 170, y: 160 })).toBeUndefined()
  })
})
