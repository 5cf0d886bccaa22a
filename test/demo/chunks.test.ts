/** Splitting a text into the chunks of a stream. */
import { describe, expect, test } from "bun:test"
import { assert, integer, property, string } from "fast-check"
import { splitText } from "../../src/demo/chunks.ts"

describe("a text split into chunks", () => {
  test("the chunks of a text join to exactly that text and split no character", () => {
    const anyText = string({ unit: "binary", maxLength: 60 })
    assert(
      property(anyText, integer({ min: 1, max: 80 }), (text, chunks) => {
        const pieces = splitText(text, chunks)
        expect(pieces.join("")).toBe(text)
        expect(pieces.length).toBeLessThanOrEqual(chunks)
        expect(pieces.every((piece) => piece !== "" && piece.isWellFormed())).toBe(true)
      }),
    )
  })

  test("a text is split into the requested number of chunks if it is long enough", () => {
    expect(splitText("abcdefghij", 4)).toEqual(["abc", "de", "fgh", "ij"])
    expect(splitText("🐦🐦🐦", 6)).toEqual(["🐦", "🐦", "🐦"])
    expect(splitText("", 3)).toEqual([])
  })
})
