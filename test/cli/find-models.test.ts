/** Discovery of model endpoints in this process: time limits, redirects, and what `doctor` reports. */
import { afterEach, expect, test } from "bun:test"
import { modelFindings } from "../../src/cli/doctor-models.ts"
import { defaultToolSet, findModels } from "../../src/cli/find-models.ts"
import { readInvocation, type Settings } from "../../src/settings/settings.ts"

const cleanup: (() => unknown)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0)) await undo()
})

const settingsOf = (environment: Record<string, string>): Settings => {
  const env = { SANDPIPER_LOCAL_MODELS: "none", ...environment }
  const invocation = readInvocation(["up"], env, "/")
  if (invocation.want !== "command") throw new Error("unreachable")
  return invocation.settings
}

const serve = (answer: (request: Request) => Response) => {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer })
  cleanup.push(() => server.stop(true))
  return `http://127.0.0.1:${server.port}`
}

test("a server that accepts the connection and stays silent is reported within three seconds", async () => {
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  cleanup.push(() => silent.stop(true))
  const started = performance.now()
  const { problems, working } = await findModels(
    settingsOf({ OPENAI_BASE_URL: `http://127.0.0.1:${silent.port}/v1` }),
  )
  expect(performance.now() - started).toBeLessThan(3000)
  expect(problems).toEqual([expect.stringContaining("cannot be reached (no response in time)")])
  expect(working).toEqual([])
})

test("a redirect of an endpoint is not followed, so its key reaches no other host", async () => {
  const other: string[] = []
  const thief = serve((request) => {
    other.push(request.headers.get("authorization") ?? "")
    return Response.json({ data: [{ id: "stolen" }] })
  })
  const url = serve(() => Response.redirect(`${thief}/v1/models`, 307))
  const { problems } = await findModels(
    settingsOf({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "sk-mine" }),
  )
  expect(other).toEqual([])
  expect(problems).toEqual([expect.stringContaining("responds with 307")])
})

test("an endpoint without a list of models is usable once a model is named", async () => {
  const url = serve(() => new Response("", { status: 404 }))
  const named = await findModels(
    settingsOf({ OPENAI_BASE_URL: `${url}/v1`, SANDPIPER_MODEL: "meta-llama/Llama-3" }),
  )
  expect(named.problems).toEqual([])
  expect(named.model).toBe("openai-compatible/meta-llama/Llama-3")
  expect(named.working[0]?.models).toEqual([{ id: "meta-llama/Llama-3" }])
  const unnamed = await findModels(settingsOf({ OPENAI_BASE_URL: `${url}/v1` }))
  expect(unnamed.problems).toEqual([expect.stringContaining("name a model with --model NAME")])
})

test("ANTHROPIC_BASE_URL gets the version, and its key is sent as x-api-key", async () => {
  const seen: (string | null)[] = []
  const url = serve((request) => {
    seen.push(new URL(request.url).pathname, request.headers.get("x-api-key"))
    return Response.json({ data: [{ id: "claude-x" }] })
  })
  const { working } = await findModels(
    settingsOf({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: "sk-ant" }),
  )
  expect(seen).toEqual(["/v1/models", "sk-ant"])
  expect(working).toMatchObject([{ providerId: "anthropic", baseUrl: `${url}/v1` }])
})

test("OLLAMA_HOST without a scheme is an endpoint on this machine, which means the set core", async () => {
  const url = serve(() => Response.json({ data: [{ id: "qwen3:8b" }] }))
  const { working } = await findModels(settingsOf({ OLLAMA_HOST: new URL(url).host }))
  expect(working).toMatchObject([{ providerId: "ollama", models: [{ id: "qwen3:8b" }] }])
  expect(defaultToolSet(working)).toBe("core")
  expect(defaultToolSet([])).toBe("team")
})

test("a model without a provider is refused if two endpoints could be meant", () => {
  const settings = settingsOf({
    ANTHROPIC_API_KEY: "a",
    GEMINI_API_KEY: "g",
    SANDPIPER_MODEL: "best",
  })
  expect(findModels(settings)).rejects.toThrow(
    "must be provider/model here: anthropic/best or google/best",
  )
})

test("doctor asks an endpoint for its models and names what came", async () => {
  const data = ["one", "two", "three", "four"].map((id) => ({ id, context_length: 8192 }))
  const url = serve(() => Response.json({ data }))
  expect(await modelFindings(settingsOf({ OPENAI_BASE_URL: `${url}/v1` }))).toEqual([
    {
      what: "model",
      verdict: "ok",
      text: `OPENAI_BASE_URL: ${url}/v1 has 4 models: one (8192 tokens), two (8192 tokens), three (8192 tokens), ...`,
    },
  ])
})

test("doctor warns about an endpoint that requires a key", async () => {
  const url = serve(() => new Response("", { status: 401 }))
  const [finding] = await modelFindings(settingsOf({ OPENAI_BASE_URL: `${url}/v1` }))
  expect(finding).toMatchObject({
    verdict: "warn",
    text: expect.stringContaining("requires a key (HTTP 401). Set OPENAI_API_KEY."),
  })
})
