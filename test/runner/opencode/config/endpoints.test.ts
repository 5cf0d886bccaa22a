/** The rules of model endpoints: which address gets which key, which model a name means, and what a list says. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  type Endpoint,
  endpointsOf,
  firstModel,
  isLocal,
  modelsIn,
  redirectedProviders,
  resolveModel,
} from "../../../../src/runner/opencode/config/endpoints.ts"

test("a key whose base URL is set is in no endpoint with another address", () => {
  const key = fc.constantFrom(undefined, "sk-secret")
  const url = fc.constantFrom(undefined, "http://127.0.0.1:7070/v1", "https://proxy.example/v1/")
  fc.assert(
    fc.property(key, key, url, url, (openai, anthropic, baseUrl, anthropicBaseUrl) => {
      const endpoints = endpointsOf(
        { baseUrl, anthropicBaseUrl },
        {
          OPENAI_API_KEY: openai && `${openai}-openai`,
          ANTHROPIC_API_KEY: anthropic && `${anthropic}-anthropic`,
        },
      )
      const placesOf = (secret: string) =>
        endpoints.filter((endpoint) => endpoint.key === secret).map((one) => one.baseUrl)
      if (openai) expect(placesOf("sk-secret-openai")).toEqual([baseUrl?.replace(/\/$/, "")])
      if (anthropic)
        expect(placesOf("sk-secret-anthropic")).toEqual([anthropicBaseUrl?.replace(/\/$/, "")])
      expect(redirectedProviders(endpoints)).toEqual(baseUrl ? ["openai"] : [])
    }),
  )
})

test("the provider's own address as base URL changes nothing", () => {
  const [only, ...more] = endpointsOf(
    { baseUrl: "https://api.openai.com/v1" },
    { OPENAI_API_KEY: "k" },
  )
  expect(only).toMatchObject({ providerId: "openai", baseUrl: undefined, key: "k" })
  expect(more).toEqual([])
})

test("GEMINI_API_KEY and GOOGLE_API_KEY name the same provider once", () => {
  expect(endpointsOf({}, { GEMINI_API_KEY: "g" })).toMatchObject([
    { providerId: "google", source: "GEMINI_API_KEY", key: "g" },
  ])
  expect(endpointsOf({}, { GEMINI_API_KEY: "g", GOOGLE_API_KEY: "h" })).toHaveLength(1)
})

test.each([
  ["127.0.0.1", "http://127.0.0.1:11434/v1"],
  ["0.0.0.0:11435", "http://127.0.0.1:11435/v1"],
  ["http://gpu.local:80", "http://gpu.local/v1"],
  ["https://ollama.example/", "https://ollama.example/v1"],
])("OLLAMA_HOST %s means the address %s", (ollamaHost, baseUrl) => {
  expect(endpointsOf({ ollamaHost }, {})).toMatchObject([{ providerId: "ollama", baseUrl }])
})

const endpoint = (providerId: string, ...ids: readonly string[]): Endpoint => ({
  providerId,
  source: "test",
  baseUrl: "http://127.0.0.1:1/v1",
  key: undefined,
  models: ids.map((id) => ({ id })),
  protocol: "openai",
})

test("a model needs no provider if one endpoint is there or one endpoint lists it", () => {
  expect(resolveModel("m", [endpoint("a")])).toBe("a/m")
  expect(resolveModel("x/m", [endpoint("a")])).toBe("a/x/m")
  expect(resolveModel("a/m", [endpoint("a")])).toBe("a/m")
  expect(resolveModel("m", [endpoint("a", "n"), endpoint("b", "m")])).toBe("b/m")
  expect(resolveModel("m", [endpoint("a"), endpoint("b")])).toBeUndefined()
  expect(resolveModel("m", [])).toBeUndefined()
  expect(resolveModel("x/m", [])).toBe("x/m")
})

test("the default model is the first one that can hold a conversation", () => {
  expect(firstModel(endpoint("a", "nomic-embed-text", "whisper-1", "qwen3"))).toBe("qwen3")
  expect(firstModel(endpoint("a", "nomic-embed-text"))).toBe("nomic-embed-text")
  expect(firstModel(endpoint("a"))).toBeUndefined()
})

test("a list of models is read with the context length in the form of each server", () => {
  const data = [
    { id: "vllm", max_model_len: 1 },
    { id: "openrouter", context_length: 2 },
    { id: "lm-studio", max_context_length: 3 },
    { id: "plain", object: "model" },
    { id: "plain" },
  ]
  expect(modelsIn({ object: "list", data })).toEqual([
    { id: "vllm", context: 1 },
    { id: "openrouter", context: 2 },
    { id: "lm-studio", context: 3 },
    { id: "plain" },
  ])
  expect(modelsIn({ models: [{ name: "models/gemini", inputTokenLimit: 4 }] })).toEqual([
    { id: "gemini", context: 4 },
  ])
  fc.assert(fc.property(fc.jsonValue(), (value) => void modelsIn(value)))
})

test("this machine and private networks are local, other hosts are not", () => {
  const at = (baseUrl: string) => isLocal({ ...endpoint("a"), baseUrl })
  expect(["http://localhost:1", "http://192.168.1.5/v1", "http://172.20.0.1"].map(at)).toEqual([
    true,
    true,
    true,
  ])
  expect(["https://openrouter.ai/api/v1", "http://172.32.0.1"].map(at)).toEqual([false, false])
})
