/** The excerpt of a search hit: words without Markdown's marks, cut between words, with every match marked. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { excerptOf } from "../../../src/hub/session/search-excerpt.ts"

const marked = (text: string, query: string, isMarkdown = true) => {
  const found = excerptOf(text, query, isMarkdown)
  return { text: found.text, words: found.marks.map(([from, to]) => found.text.slice(from, to)) }
}

test("an excerpt has the words of Markdown without its marks", () => {
  const text = [
    "## The **shore**",
    "",
    "> A [heron](https://example.com/a_b) and `wades()` in *shallow* water.",
    "- [x] ~~count~~ the _herons_",
    "1. `snake_case` stays, 2 * 3 * 4 too",
    "| bird | legs |",
    "|:-----|-----:|",
    "| heron | two |",
    "```ts",
    "const heron = 1",
    "```",
    "---",
    "![a heron](picture.png)",
  ].join("\n")
  expect(marked(text, "heron")).toEqual({
    text: "The shore A heron and wades() in shallow water. count the herons snake_case stays, 2 * 3 * 4 too bird legs heron two const heron = 1 a heron",
    words: ["heron", "heron", "heron", "heron", "heron"],
  })
})

test("a long text is cut between words on both sides of the match", () => {
  const words = Array.from({ length: 200 }, (_, index) => `word${index}`)
  const text = [...words.slice(0, 100), "HERON", ...words.slice(100)].join(" ")
  const found = marked(text, "heron")
  expect(found.words).toEqual(["HERON"])
  expect(found.text).toStartWith("… word")
  expect(found.text).toEndWith("…")
  const shown = found.text.replaceAll("…", "").trim().split(" ")
  for (const word of shown) expect([...words, "HERON"]).toContain(word)
  expect(found.text.length).toBeLessThanOrEqual(250)
})

test("a query for the marks themselves, and the words of a person, keep the text as it is", () => {
  expect(marked("a **bold** word", "**bold**")).toEqual({
    text: "a **bold** word",
    words: ["**bold**"],
  })
  expect(marked("a **bold** word", "bold", false).text).toBe("a **bold** word")
})

test("a match in a very long word or far inside a very long line is shown", () => {
  const long = `${"x".repeat(5000)}heron${"y".repeat(5000)}`
  expect(marked(long, "heron").words).toEqual(["heron"])
  expect(marked(`${"a b ".repeat(5000)}heron`, "heron").text).toEndWith("heron")
})

test("every match of any text and query is marked, and the excerpt stays short", () => {
  const unit = fc.constantFrom(
    "a",
    "b",
    "é",
    " ",
    "\n",
    "*",
    "_",
    "`",
    "#",
    "[",
    "]",
    "(",
    ")",
    "|",
    "😀",
  )
  const text = fc.string({ unit, maxLength: 600 })
  const query = fc.string({ unit, minLength: 1, maxLength: 6 }).filter((one) => one.trim() !== "")
  fc.assert(
    fc.property(text, query, text, fc.boolean(), (before, wanted, after, isMarkdown) => {
      const found = marked(`${before}${wanted}${after}`, wanted, isMarkdown)
      expect(found.words.length).toBeGreaterThan(0)
      for (const word of found.words) expect(word.toLowerCase()).toBe(wanted.toLowerCase())
      expect(found.text.length).toBeLessThanOrEqual(260)
    }),
  )
})
