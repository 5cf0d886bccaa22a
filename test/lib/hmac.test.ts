/** HMAC-SHA256 by the test vectors of RFC 4231. */
import { expect, test } from "bun:test"
import { hmacOf } from "../../src/lib/hmac.ts"

test.each([
  [
    "Jefe",
    "what do ya want for nothing?",
    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
  ],
  [
    "\u000b".repeat(20),
    "Hi There",
    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
  ],
])("the HMAC with the key %j of the text %j is that of RFC 4231", async (key, text, expected) => {
  expect(await hmacOf(key, text)).toBe(expected)
})
