/** Masking of secret values in a stream: in every common encoding, wherever the stream is cut. */
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

describe("a secret value", () => {
  test("a plain value is masked and other text is unchanged", () => {
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
  ])("a value is masked in %s", (_, written) => {
    const shown = masked([SECRET], `x=${written};`)
    expect(shown).toStartWith("x=[secret]")
    expect(shown).not.toContain(written.slice(2, -2))
  })

  test("a value is masked inside longer base64 data, at every offset and line width", () => {
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

  test("each line of a multi-line value is masked", () => {
    const key = "-----BEGIN KEY-----\nAAAABBBBCCCCDDDD\nEEEEFFFFGGGGHHHH\n-----END KEY-----"
    expect(masked([key], `the key:\n${key}\n`)).toBe("the key:\n[secret]\n")
    expect(masked([key], "second line: EEEEFFFFGGGGHHHH.")).toBe("second line: [secret].")
  })

  test("a value that is the start of another value is masked together with it", () => {
    expect(masked(["abcd", "abcdefgh"], "x abcdefgh y abcd z")).toBe("x [secret] y [secret] z")
    expect(masked(["abcdef", "defghi"], "x abcdefghi y")).toBe("x [secret] y")
  })

  test("an endless repetition of a value is masked", () => {
    expect(masked(["aaaa"], "aaa", "aaaaa", "aaaaaaa")).not.toContain("a")
  })
})

describe("a masked stream", () => {
  test("the masked text does not depend on how the stream is cut", () => {
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

  test("text that cannot become a value is released before the end of the stream", () => {
    const mask = createMask(["0123456789"])
    expect(mask.push("a long line that holds nothing secret at all\n")).toContain("a long line")
  })
})
