/** Hashes and derived keys. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { sameText } from "../../src/lib/constant-time.ts"
import { gatewayKey, hashOf } from "../../src/hub/keys.ts"

test("a token's hash is SHA-256", async () => {
  expect(await hashOf("abc")).toBe(
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
  )
})

test("a gateway's key is another one for every session and every generation", async () => {
  const keys = await Promise.all([
    gatewayKey("master", "s1", 1),
    gatewayKey("master", "s1", 2),
    gatewayKey("master", "s2", 1),
    gatewayKey("other", "s1", 1),
  ])
  expect(new Set(keys).size).toBe(4)
  expect(await gatewayKey("master", "s1", 1)).toBe(keys[0] ?? "")
})

test("texts are the same exactly when they are", () => {
  fc.assert(fc.property(fc.string(), fc.string(), (a, b) => sameText(a, b) === (a === b)))
  fc.assert(fc.property(fc.string(), (a) => sameText(a, a)))
})
