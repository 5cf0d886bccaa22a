/** The comparison of secrets. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { sameText } from "../../src/lib/constant-time.ts"

test("two texts compare as equal exactly if they are equal", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (one, other) => {
      expect(sameText(one, one)).toBe(true)
      expect(sameText(one, other)).toBe(one === other)
    }),
  )
})

test("a prefix, a repetition and the empty text are not equal to the expected text", () => {
  for (const given of ["", "sec", "secretsecret", "Secret"]) {
    expect(sameText(given, "secret")).toBe(false)
  }
})
