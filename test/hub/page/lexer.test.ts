/** Markdown that grows is lexed like the whole text, at every length of it. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { emptyLexed, lexMore, lexWhole } from "../../../src/hub/page/parts/lexer.ts"
import { proseHtml } from "../../../src/hub/page/parts/prose-html.ts"

const LINES = [
  "A paragraph with **bold** and `code`.",
  "# Heading",
  "## Another",
  "- item",
  "- item with *emphasis*",
  "  continued",
  "1. first",
  "2. second",
  "> quoted",
  "```ts",
  "const a = 1",
  "```",
  "| a | b |",
  "|---|---|",
  "| 1 | 2 |",
  "    indented",
  "***",
  "---",
  "===",
  "<div>",
  "</div>",
  "[link](https://example.org)",
  "- [x] done",
  "text with <Suspense> in it",
  "~~~",
  "",
  "",
]

const documents = fc
  .array(fc.constantFrom(...LINES), { minLength: 1, maxLength: 14 })
  .map((lines) => lines.join("\n"))

const tokensOf = (text: string) => lexWhole(text).blocks.map(({ type, raw }) => [type, raw])

describe("the incremental lexer", () => {
  test("lexing a text piece by piece gives the blocks of the whole text at every prefix of 200 documents", () => {
    fc.assert(
      fc.property(documents, (text) => {
        let lexed = emptyLexed
        for (let end = 1; end <= text.length; end++) {
          lexed = lexMore(lexed, text.slice(0, end))
          expect(lexed.blocks.map(({ type, raw }) => [type, raw])).toEqual(
            tokensOf(text.slice(0, end)),
          )
        }
      }),
      { numRuns: 200 },
    )
  })

  test("the blocks before the last two are the same objects after the text has grown", () => {
    const before = lexMore(emptyLexed, "one\n\ntwo\n\nthree\n\nfour")
    const after = lexMore(before, `${before.text}\n\nfive`)
    expect(after.blocks[0]).toBe(before.blocks[0] as never)
    expect(after.blocks[2]).toBe(before.blocks[2] as never)
  })

  test("a text that does not continue the former one is lexed from its start", () => {
    const before = lexMore(emptyLexed, "# one\n\ntwo")
    expect(lexMore(before, "three").blocks.map(({ raw }) => raw)).toEqual(["three"])
  })
})

describe("the HTML of a block", () => {
  const htmlOf = (text: string) =>
    lexWhole(text)
      .blocks.map((block) => proseHtml(block))
      .join("")

  test("raw HTML is shown as text", () => {
    expect(htmlOf("a <img src=x onerror=alert(1)> b")).not.toContain("<img")
    expect(htmlOf("<script>alert(1)</script>")).not.toContain("<script")
  })

  test("an image is a link to it", () => {
    expect(htmlOf("![logo](https://example.org/a.png)")).toContain(
      '<a href="https://example.org/a.png">logo</a>',
    )
  })

  test("a link with another scheme than http, https and mailto is only its text", () => {
    expect(htmlOf("[run](javascript:alert(1))")).not.toContain("<a")
    expect(htmlOf("[data](data:text/html,x)")).not.toContain("<a")
  })

  test("a link whose text names another host shows the real host after it", () => {
    expect(htmlOf("[bank.example](https://evil.example/x)")).toContain("(evil.example)")
    expect(htmlOf("[auth.ts](https://example.org/auth.ts)")).not.toContain("(example.org)")
  })

  test("headings of a reply start at the third level, because the page has the first two", () => {
    expect(htmlOf("# One")).toContain("<h3>One</h3>")
    expect(htmlOf("##### Five")).toContain("<h6>Five</h6>")
  })
})
