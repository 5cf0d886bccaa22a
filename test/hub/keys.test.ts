/** Hashes and derived keys. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { sameText } from "../../src/lib/constant-time.ts"
import { gatewayKey, hashOf } from "../../src/hub/keys.ts"

test("the hash of a token is its SHA-256", async () => {
  expect(await hashOf("abc")).toBe(
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
  )
})

test("the gateway key differs for every master key, session and generation, and is stable", async () => {
  const keys = await Promise.all([
    gatewayKey("master", "s1", 1),
    gatewayKey("master", "s1", 2),
    gatewayKey("master", "s2", 1),
    gatewayKey("other", "s1", 1),
  ])
  expect(new Set(keys).size).toBe(4)
  expect(await gatewayKey("master", "s1", 1)).toBe(keys[0] ?? "")
})

test("the constant-time comparison agrees with === for any two texts", () => {
  fc.assert(fc.property(fc.string(), fc.string(), (a, b) => sameText(a, b) === (a === b)))
  fc.assert(fc.property(fc.string(), (a) => sameText(a, a)))
})
