/** The digest of a text. */
import { expect, test } from "bun:test"
import { digestOf } from "../../src/lib/digest.ts"

test("the digest of a text is its SHA-256 in hex with the algorithm as prefix", () => {
  expect(digestOf("abc")).toBe(
    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
  )
})
