/** What `up` sets in a session's config, and what it leaves. */
import { expect, test } from "bun:test"
import { hasClientModels, withHostConfig } from "../../src/cli/host-config.ts"

const demo = {
  providerId: "demo",
  displayName: "Demo",
  baseUrl: "http://127.0.0.1:2/v1",
  models: [{ id: "demo-1" }],
}
const own = { ...demo, providerId: "own", baseUrl: "http://127.0.0.1:3/v1" }

test("providers and tools that a client has set stay, and those of the last up are replaced", () => {
  const before = { create_pull_request: false, run_workflow: true }
  const stored = {
    customProviders: [{ ...demo, baseUrl: "http://127.0.0.1:1/v1" }, own],
    tools: { ...before, bash: false, run_workflow: false },
    instructions: ["Be brief."],
  }
  expect(
    withHostConfig(stored, before, { provider: demo, tools: { list_workflows: true } }),
  ).toEqual({
    customProviders: [own, demo],
    tools: { list_workflows: true, bash: false, run_workflow: false },
  })
})

test("a demo model that does not run any more is removed", () => {
  expect(withHostConfig({ customProviders: [demo] }, {}, { tools: {} }).customProviders).toEqual([])
})

test("a key or a provider of a client makes the demo model unnecessary", () => {
  expect(hasClientModels({ customProviders: [demo] })).toBe(false)
  expect(hasClientModels({ customProviders: [demo, own] })).toBe(true)
  expect(hasClientModels({ providerKeys: { openai: "k" } })).toBe(true)
  expect(hasClientModels({})).toBe(false)
})
