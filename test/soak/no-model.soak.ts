/** Prompts when no model can answer: none is configured, none has that name, or its address cannot be reached. */
import { afterEach, expect, test } from "bun:test"
import { type Conversation, startConversation } from "../kit/conversation.ts"
import { freePort } from "../kit/free-port.ts"

let c: Conversation | undefined
afterEach(async () => {
  await c?.stop()
  c = undefined
})

test("without a model a prompt and a command fail at once and say what to set; an unknown provider is named", async () => {
  c = await startConversation({}, { agentConfig: { customProviders: [] } })
  const started = Date.now()
  const answer = await c.ask("m1", "hello")
  expect(Date.now() - started).toBeLessThan(5000)
  expect(answer.of("error")).toMatchObject([
    { error: expect.stringMatching(/^no model is configured: set a provider key such as/) },
  ])
  expect(answer.of("retry")).toEqual([])
  const named = await c.ask("m2", "hello", { model: "nope/nope" })
  const { error = "" } = named.of("error")[0] ?? named.final ?? {}
  expect(error).toContain("nope/nope")
  expect(error).not.toContain("\n    at ")
})

test("a model whose address cannot be reached is reported with the model and the address, not as busy", async () => {
  const port = freePort()
  const customProviders = [
    {
      providerId: "away",
      displayName: "Away",
      baseUrl: `http://127.0.0.1:${port}/v1`,
      apiKey: "wrong-key",
      models: [{ id: "m1" }],
    },
  ]
  c = await startConversation(
    { TURN_FIRST_EVENT_SECONDS: "30" },
    { agentConfig: { customProviders } },
  )
  const answer = await c.ask("m1", "hello")
  const reported = `away/m1: away at 127.0.0.1:${port} cannot be reached (`
  expect(answer.of("retry")[0]?.message).toStartWith(reported)
  expect(answer.final).toMatchObject({ reason: "error" })
  expect(answer.final?.error).toContain(reported)
  expect(JSON.stringify(answer.frames)).not.toContain("wrong-key")
})
