import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { patchConfig } from "../../../src/hub/session/patch-config.ts"

const endpoint = (providerId: string, apiKey?: string) => ({
  providerId,
  displayName: providerId.toUpperCase(),
  baseUrl: `https://${providerId}.example/v1`,
  ...(apiKey !== undefined && { apiKey }),
  models: [{ id: "one" }],
})
const stored = {
  providerKeys: { anthropic: "sk-a", openai: "sk-o" },
  customProviders: [endpoint("first", "key-1"), endpoint("second")],
  tools: { bash: false },
  instructions: ["be brief"],
}

test("an added endpoint comes after the others, which stay as they are with their keys", () => {
  const added = { displayName: "Third", baseUrl: "http://127.0.0.1:1/v1", apiKey: "key-3" }
  expect(patchConfig(stored, { customProviders: { third: added } })).toEqual({
    ok: true,
    change: {
      customProviders: [...stored.customProviders, { providerId: "third", ...added, models: [] }],
    },
  })
})

test("an endpoint that is changed without a key keeps its stored key, and a null removes the key", () => {
  const patched = (fields: object) => {
    const result = patchConfig(stored, { customProviders: { first: fields } })
    return result.ok ? result.change.customProviders?.[0] : result
  }
  expect(patched({ displayName: "New" })).toEqual({
    ...endpoint("first", "key-1"),
    displayName: "New",
  })
  expect(patched({ baseUrl: "https://first.example/v2" })).toMatchObject({ apiKey: "key-1" })
  expect(patched({ apiKey: "key-2" })).toMatchObject({ apiKey: "key-2" })
  expect(patched({ apiKey: null })).not.toHaveProperty("apiKey")
})

test("a stored key does not follow an endpoint to another origin", () => {
  const move = (fields: object) => patchConfig(stored, { customProviders: { first: fields } })
  const baseUrl = "https://elsewhere.example/v1"
  expect(move({ baseUrl })).toMatchObject({
    ok: false,
    problem: expect.stringContaining("belongs to its former address"),
  })
  expect(move({ baseUrl: "http://first.example/v1" }).ok).toBeFalse()
  expect(move({ baseUrl, apiKey: "key-9" })).toMatchObject({
    change: { customProviders: [{ baseUrl, apiKey: "key-9", models: [] }, {}] },
  })
  expect(move({ baseUrl, apiKey: null }).ok).toBeTrue()
})

test("a null removes an endpoint, a key or a switch, and a new endpoint without an address is refused", () => {
  expect(
    patchConfig(stored, {
      customProviders: { first: null, absent: null },
      providerKeys: { openai: null, google: "g" },
      tools: { bash: null, edit: false },
    }),
  ).toEqual({
    ok: true,
    change: {
      customProviders: [endpoint("second")],
      providerKeys: { anthropic: "sk-a", google: "g" },
      tools: { edit: false },
    },
  })
  expect(patchConfig(stored, { customProviders: { third: { displayName: "T" } } })).toEqual({
    ok: false,
    problem: "patch.customProviders: third is new: it needs a baseUrl",
  })
})

test("any patch leaves every endpoint and key that it does not name unchanged", () => {
  const ids = fc.constantFrom("first", "second", "third", "__proto__", "constructor")
  const change = fc.option(
    fc.record({ baseUrl: fc.constantFrom("https://first.example/", "https://x.example/") }),
  )
  fc.assert(
    fc.property(
      fc.dictionary(ids, change),
      fc.dictionary(ids, fc.option(fc.string())),
      (one, two) => {
        const patched = patchConfig(stored, { customProviders: one, providerKeys: two })
        if (!patched.ok) return
        const list = patched.change.customProviders ?? []
        for (const before of stored.customProviders)
          if (!Object.hasOwn(one, before.providerId)) expect(list).toContainEqual(before)
        expect(patched.change.providerKeys).toMatchObject(stored.providerKeys)
        expect(new Set(list.map(({ providerId }) => providerId)).size).toBe(list.length)
      },
    ),
  )
})
