/** Endpoints without named models: what the runner asks them, and what it makes of the answers. */
import { afterAll, expect, test } from "bun:test"
import { fillModels } from "../../../../src/runner/opencode/config/fill-models.ts"

const seen: (string | null)[] = []
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) => {
    seen.push(request.headers.get("authorization"))
    if (request.headers.get("authorization") !== "Bearer right")
      return new Response("", { status: 401 })
    return Response.json({ data: [{ id: "m1", max_model_len: 32_000 }, { id: "m2" }] })
  },
})
afterAll(() => server.stop(true))

const endpoint = (apiKey: string, models: readonly { id: string }[] = []) => ({
  providerId: "mine",
  displayName: "Mine",
  baseUrl: `http://127.0.0.1:${server.port}/v1/`,
  apiKey,
  models: [...models],
})

test("an endpoint without named models gets those that it lists, with their context", async () => {
  const { change, problem } = await fillModels({
    customProviders: [endpoint("right")],
    instructions: ["kept"],
  })
  expect(problem).toBeUndefined()
  expect(change.instructions).toEqual(["kept"])
  expect(change.customProviders?.[0]).toMatchObject({
    baseUrl: `http://127.0.0.1:${server.port}/v1`,
    models: [{ id: "m1", contextLimit: 32_000 }, { id: "m2" }],
  })
})

test("named models are not asked for", async () => {
  const before = seen.length
  const wanted = { customProviders: [endpoint("right", [{ id: "own" }])] }
  expect(await fillModels(wanted)).toEqual({ change: wanted })
  expect(seen.length).toBe(before)
})

test("an endpoint that refuses the key is left out with the reason, and the rest of the config is applied", async () => {
  const other = { ...endpoint("right", [{ id: "own" }]), providerId: "other" }
  const { change, problem } = await fillModels({ customProviders: [endpoint("wrong"), other] })
  expect(problem).toBe("Mine rejects the key (HTTP 401): check that it belongs to this endpoint.")
  expect(change.customProviders).toEqual([other])
})
