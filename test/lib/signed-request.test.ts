/** Signed requests: what a valid one is, and that each part of it is covered. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  problemOfSignature,
  SIGNATURE_HEADER,
  SIGNATURE_WINDOW_MS,
  signedPost,
} from "../../src/lib/signed-request.ts"
import { createSingleUse } from "../../src/lib/single-use.ts"

const KEY = "a key of the tests with 32 characters"
const NOW = 1_800_000_000_000
const URL_OF_FLEET = "http://127.0.0.1:1/api/hub/activity?x=1"

const check = (
  request: Request,
  body: string,
  more: { readonly key?: string; readonly now?: number; readonly used?: Set<string> } = {},
) => {
  const { key = KEY, now = NOW, used = new Set<string>() } = more
  return problemOfSignature({
    key,
    now,
    request,
    body,
    isNew: (nonce) => !used.has(nonce) && used.add(nonce) !== undefined,
  })
}

const signed = async (value: unknown = { a: 1 }) => {
  const request = await signedPost(KEY, URL_OF_FLEET, value, NOW)
  return { request, body: JSON.stringify(value) }
}

describe("a signed request", () => {
  test("a signed request is accepted with the same key, once", async () => {
    const { request, body } = await signed()
    const used = new Set<string>()
    expect(await check(request, body, { used })).toBeUndefined()
    expect(await check(request, body, { used })).toBe("the signature was used before")
  })

  test("a signed request is refused with another key, another body, another path or another method", async () => {
    const { request, body } = await signed()
    const headers = request.headers
    const wrong = "the signature is not valid"
    expect(await check(request, body, { key: `${KEY}x` })).toBe(wrong)
    expect(await check(request, `${body} `)).toBe(wrong)
    const elsewhere = new Request(URL_OF_FLEET.replace("x=1", "x=2"), { method: "POST", headers })
    expect(await check(elsewhere, body)).toBe(wrong)
    expect(await check(new Request(URL_OF_FLEET, { method: "PUT", headers }), body)).toBe(wrong)
  })

  test("a signed request is refused outside the window, before and after", async () => {
    const { request, body } = await signed()
    for (const now of [NOW - SIGNATURE_WINDOW_MS - 1, NOW + SIGNATURE_WINDOW_MS + 1])
      expect(await check(request, body, { now })).toBe("the signature is too old")
    for (const now of [NOW - SIGNATURE_WINDOW_MS, NOW + SIGNATURE_WINDOW_MS])
      expect(await check(request, body, { now })).toBeUndefined()
  })

  test("a wrong signature does not use up the number of the right one", async () => {
    const { request, body } = await signed()
    const used = new Set<string>()
    await check(request, "another body", { used })
    expect(await check(request, body, { used })).toBeUndefined()
  })

  test("any changed character of the header is refused", async () => {
    const { request, body } = await signed()
    const header = request.headers.get(SIGNATURE_HEADER) ?? ""
    await fc.assert(
      fc.asyncProperty(
        fc.nat(header.length - 1),
        fc.string({ minLength: 1, maxLength: 1, unit: "grapheme-ascii" }),
        async (place, character) => {
          fc.pre(header[place] !== character)
          const changed = header.slice(0, place) + character + header.slice(place + 1)
          const headers = { [SIGNATURE_HEADER]: changed.trim() }
          fc.pre(headers[SIGNATURE_HEADER] !== header)
          const forged = new Request(URL_OF_FLEET, { method: "POST", headers })
          expect(await check(forged, body)).toBeDefined()
        },
      ),
      { numRuns: 300 },
    )
  })

  test("a full memory of used numbers refuses new ones instead of forgetting old ones", async () => {
    const memory = createSingleUse(() => NOW, 1)
    const first = await signed()
    const second = await signed()
    const once = (request: Request, body: string) =>
      problemOfSignature({ key: KEY, now: NOW, request, body, isNew: memory.accept })
    expect(await once(first.request, first.body)).toBeUndefined()
    expect(await once(second.request, second.body)).toBe("the signature was used before")
  })
})
