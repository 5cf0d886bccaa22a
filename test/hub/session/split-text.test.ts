/** Long texts in several messages. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { splitText } from "../../../src/hub/session/split-text.ts"

test("a short text stays one message", () => {
  expect(splitText("hello", 10)).toEqual(["hello"])
})

test("an empty text is not a message", () => {
  expect(splitText(" \n", 10)).toEqual([])
})

test("a cut is made at the end of a paragraph when there is one", () => {
  expect(splitText("aaaa aa\n\nbbbb", 10)).toEqual(["aaaa aa", "bbbb"])
})

test("a text without a break is cut at the limit, never inside a surrogate pair", () => {
  expect(splitText("aaa😀bbb", 4)).toEqual(["aaa", "😀bb", "b"])
})

test("no piece is too long, and no character but white space is lost", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme", maxLength: 300 }),
      fc.integer({ min: 2, max: 40 }),
      (text, most) => {
        const pieces = splitText(text, most)
        for (const piece of pieces) expect(piece.length).toBeLessThanOrEqual(most)
        const bare = (value: string) => value.replaceAll(/\s/g, "")
        expect(bare(pieces.join(""))).toBe(bare(text))
      },
    ),
  )
})
