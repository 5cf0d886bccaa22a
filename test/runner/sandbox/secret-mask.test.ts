/** Values in a stream of text: hidden in every common form, wherever the stream is cut. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { createMask } from "../../../src/runner/sandbox/secret-mask.ts"

const SECRET = "pässword/with+odd chars&='\"!"

const masked = (values: readonly string[], ...chunks: readonly string[]): string => {
  const mask = createMask(values)
  return chunks.map(mask.push).join("") + mask.end()
}

const wrapped = (text: string, width: number): string =>
  text.replaceAll(new RegExp(`.{${width}}`, "g"), "$&\n")

const base64 = (text: string): string => Buffer.from(text).toString("base64")

describe("a value", () => {
  test("is hidden as it is, and nothing else is changed", () => {
    expect(masked([SECRET], `before ${SECRET} after\n`)).toBe("before [secret] after\n")
    expect(masked([SECRET], "nothing of it here\n")).toBe("nothing of it here\n")
    expect(masked([], "no secrets at all")).toBe("no secrets at all")
  })

  test.each([
    ["JSON", JSON.stringify(SECRET).slice(1, -1)],
    ["a URL", encodeURIComponent(SECRET)],
    ["a URL in small letters", encodeURIComponent(SECRET).toLowerCase()],
    ["a form", encodeURIComponent(SECRET).replaceAll("%20", "+")],
    ["base64", base64(SECRET)],
    ["base64 for URLs", Buffer.from(SECRET).toString("base64url")],
    ["hexadecimal digits", Buffer.from(SECRET).toString("hex")],
  ])("is hidden in %s", (_, written) => {
    const shown = masked([SECRET], `x=${written};`)
    expect(shown).toStartWith("x=[secret]")
    expect(shown).not.toContain(written.slice(2, -2))
  })

  test("is hidden in the base64 of a text around it, at every offset and line width", () => {
    const value = "s3cr3t-value-of-some-length-0123456789"
    for (const offset of [0, 1, 2, 3, 4, 5]) {
      for (const width of [4, 7, 76]) {
        const text = `${"#".repeat(offset)}NAME=${value}\nOTHER=x\n`
        const shown = masked([value], wrapped(base64(text), width))
        const rest = shown.replaceAll("[secret]", "").replaceAll("\n", "")
        expect(Buffer.from(rest, "base64").toString("latin1")).not.toContain(value.slice(3, 9))
        expect(shown).toContain("[secret]")
      }
    }
  })

  test("of several lines is hidden line by line too", () => {
    const key = "-----BEGIN KEY-----\nAAAABBBBCCCCDDDD\nEEEEFFFFGGGGHHHH\n-----END KEY-----"
    expect(masked([key], `the key:\n${key}\n`)).toBe("the key:\n[secret]\n")
    expect(masked([key], "second line: EEEEFFFFGGGGHHHH.")).toBe("second line: [secret].")
  })

  test("that another begins with is hidden with it", () => {
    expect(masked(["abcd", "abcdefgh"], "x abcdefgh y abcd z")).toBe("x [secret] y [secret] z")
    expect(masked(["abcdef", "defghi"], "x abcdefghi y")).toBe("x [secret] y")
  })

  test("repeated without an end shows nothing of itself", () => {
    expect(masked(["aaaa"], "aaa", "aaaaa", "aaaaaaa")).not.toContain("a")
  })
})

describe("a stream", () => {
  test("hides the same whatever chunks it comes in", () => {
    const values = ["hunter2-hunter2", "zzzz", "hunter2"]
    const pieces = fc.array(
      fc.constantFrom(...values, base64("hunter2-hunter2"), "\n", " ", "hun", "zz", "=", "text"),
      { maxLength: 30 },
    )
    fc.assert(
      fc.property(pieces, fc.array(fc.nat(40), { maxLength: 20 }), (parts, cuts) => {
        const text = parts.join("")
        const places = [...new Set(cuts.filter((cut) => cut < text.length))].toSorted(
          (a, b) => a - b,
        )
        const chunks = [0, ...places].map((from, index) => text.slice(from, places[index]))
        const shown = masked(values, ...chunks)
        expect(shown).toBe(masked(values, text))
        const flat = shown.replaceAll("[secret]", "|").replaceAll("\n", "")
        for (const value of values) expect(flat).not.toContain(value)
      }),
      { numRuns: 500 },
    )
  })

  test("shows what cannot become a value any more, before its end", () => {
    const mask = createMask(["0123456789"])
    expect(mask.push("a long line that holds nothing secret at all\n")).toContain("a long line")
  })
})
