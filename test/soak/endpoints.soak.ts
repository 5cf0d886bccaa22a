/** `sandpiper up` with model endpoints by convention, from outside: what the servers and a proxy receive, what is printed. */
import { afterEach, expect, test } from "bun:test"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { createSandbox, runnerFromSource, type Sandbox } from "../kit/runner.ts"
import { untilFound } from "../kit/until-true.ts"

const cleanup: (() => unknown)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0).toReversed()) await undo()
})

/** A keyless server in front of the scripted model: records every request with its credential. */
const startServer = async (wanted?: string) => {
  const model = await startScriptedModel()
  const seen: { readonly path: string; readonly key: string | null }[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      const key = request.headers.get("authorization")
      seen.push({ path: pathname, key })
      if (wanted !== undefined && key !== `Bearer ${wanted}`)
        return new Response("", { status: 401 })
      if (pathname === "/v1/models")
        return Response.json({ data: [{ id: "nomic-embed" }, { id: "m1", max_model_len: 32_000 }] })
      if (!pathname.startsWith("/v1/")) return new Response("", { status: 404 })
      const headers = {
        "content-type": "application/json",
        authorization: `Bearer ${model.apiKey}`,
      }
      const body = await request.text()
      return fetch(new URL(pathname, model.url), { method: request.method, headers, body })
    },
  })
  cleanup.push(model.stop, () => server.stop(true))
  return { model, seen, origin: `http://127.0.0.1:${server.port}` }
}

/** A proxy that refuses every connection and records where it should have led. */
const startRecordingProxy = () => {
  const asked: string[] = []
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data: (socket, bytes) => {
        asked.push(bytes.toString().split("\r\n", 1)[0] ?? "")
        socket.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
      },
    },
  })
  cleanup.push(() => server.stop(true))
  return { asked, url: `http://127.0.0.1:${server.port}` }
}

const up = async (
  environment: Record<string, string>,
  {
    args = [],
    input = "say hello\n",
    furnish = async () => {},
  }: {
    args?: readonly string[]
    input?: string
    furnish?: (sandbox: Sandbox) => Promise<unknown>
  } = {},
) => {
  const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  cleanup.push(sandbox.remove)
  await furnish(sandbox)
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  const result = await runToEnd([...runnerFromSource, "up", ...args], {
    cwd: sandbox.workDir,
    env: {
      PATH,
      HOME,
      OPENCODE_BIN,
      SANDPIPER_STATE_DIR,
      WORK_DIR: sandbox.workDir,
      GATEWAY_PORT: "0",
      SANDPIPER_LOCAL_MODELS: "none",
      ...environment,
    },
    input,
  })
  return { ...result, sandbox }
}

const scriptTool = (model: ScriptedModel) =>
  model.enqueue(tool("bash", { command: "echo made > proof.txt", description: "x" }), text("Done."))

test("OPENAI_BASE_URL alone, without a key and without a model, gives a turn with a tool and the set core", async () => {
  const { model, origin } = await startServer()
  scriptTool(model)
  const { out, code, sandbox } = await up({ OPENAI_BASE_URL: `${origin}/v1` })
  expect(out).toContain(`Model: openai-compatible/m1 at ${origin}/v1 (OPENAI_BASE_URL).`)
  expect(out).toContain("Tools: the set core.")
  expect(out).not.toContain("demo model")
  expect(out).toContain("Done.")
  expect(code).toBe(0)
  expect(await Bun.file(join(sandbox.workDir, "proof.txt")).text()).toBe("made\n")
  const offered = model.requests[0]?.tools.map(({ function: { name } }) => name) ?? []
  expect(offered).toContain("register_tunnel")
  expect(offered).not.toContain("spawn_session")
})

test("a key whose base URL is set reaches only that address, and no other host is connected", async () => {
  const key = "sk-belongs-only-to-the-proxy"
  const { model, seen, origin } = await startServer(key)
  scriptTool(model)
  const proxy = startRecordingProxy()
  const { out } = await up({
    OPENAI_API_KEY: key,
    OPENAI_API_BASE: `${origin}/v1`,
    AGENT_ENV_ALLOW: "OPENAI_API_KEY",
    HTTPS_PROXY: proxy.url,
    https_proxy: proxy.url,
  })
  expect(out).toContain("Done.")
  expect(proxy.asked).toEqual([])
  expect(seen.map(({ path }) => path)).toContain("/v1/chat/completions")
  expect(new Set(seen.map((request) => request.key))).toEqual(new Set([`Bearer ${key}`]))
})

test("--base-url without the version and --model without a provider name an endpoint and its model", async () => {
  const { model, origin } = await startServer()
  model.enqueue(text("I am here."))
  const args = ["--base-url", origin, "--model", "m2", "--tools", "team"]
  const { out } = await up({}, { args })
  expect(out).toContain(`Model: openai-compatible/m2 at ${origin}/v1 (OPENAI_BASE_URL), named by`)
  expect(out).toContain("I am here.")
  expect(model.requests[0]?.model).toBe("m2")
  const offered = model.requests[0]?.tools.map(({ function: { name } }) => name) ?? []
  expect(offered).toContain("spawn_session")
})

test("a local server is found without any setting, and the greeting says where", async () => {
  const { model, origin } = await startServer()
  model.enqueue(text("Found me."))
  const { out } = await up({ SANDPIPER_LOCAL_MODELS: origin })
  expect(out).toMatch(
    new RegExp(`Model: local-\\d+/m1 from a local server, found at ${origin}/v1\\.`),
  )
  expect(out).toContain("Found me.")
})

test("up with an unreachable endpoint exits at once with code 1 and says what to check", async () => {
  const closed = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("") })
  const url = `http://127.0.0.1:${closed.port}/v1`
  await closed.stop(true)
  const timed = async <Value>(act: () => Promise<Value>) => {
    const started = performance.now()
    const value = await act()
    return { value, ms: performance.now() - started }
  }
  // The start of the program alone, on the same machine at the same time.
  const plain = await timed(() => up({}, { args: ["--help"] }))
  const { value, ms } = await timed(() => up({ OPENAI_BASE_URL: url }))
  const { err, code } = value
  expect(ms).toBeLessThan(3000 + 3 * plain.ms)
  expect(err).toContain(`OPENAI_BASE_URL: ${url} cannot be reached`)
  expect(err).toContain(`curl ${url}/models`)
  expect(code).toBe(1)
})

test("a rejected key is reported with the variable that holds it, and the key is not printed", async () => {
  const { origin } = await startServer("sk-the-right-one")
  const key = "sk-the-wrong-one"
  const { out, err, code } = await up({ OPENAI_BASE_URL: `${origin}/v1`, OPENAI_API_KEY: key })
  expect(err).toContain("rejects the key in OPENAI_API_KEY (HTTP 401)")
  expect(`${out}${err}`).not.toContain(key)
  expect(code).toBe(1)
})

test("a model of the project's opencode.json replies, and the greeting names that file instead of the demo model", async () => {
  const { model, origin } = await startServer()
  model.enqueue(text("From the project."))
  const config = {
    model: "house/m1",
    provider: {
      house: {
        npm: "@ai-sdk/openai-compatible",
        options: { baseURL: `${origin}/v1`, apiKey: "none" },
        models: { m1: { name: "M1" } },
      },
    },
  }
  const { out, sandbox } = await up(
    {},
    {
      furnish: ({ workDir }) => writeFile(join(workDir, "opencode.json"), JSON.stringify(config)),
    },
  )
  expect(out).toContain(`Model: house/m1 from ${join(sandbox.workDir, "opencode.json")}.`)
  expect(out).toContain("From the project.")
  expect(out).not.toContain("demo model")
})

test("a sandbox of serve uses OPENAI_BASE_URL without a key and without a model", async () => {
  const { model, origin } = await startServer()
  scriptTool(model)
  const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  cleanup.push(sandbox.remove)
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  const serving = Bun.spawn([...runnerFromSource, "serve"], {
    cwd: sandbox.workDir,
    env: {
      PATH,
      HOME,
      OPENCODE_BIN,
      SANDPIPER_STATE_DIR,
      WORK_DIR: sandbox.workDir,
      SANDPIPER_LOCAL_MODELS: "none",
      SANDBOX_PROVIDER: "local",
      OPENAI_API_BASE: `${origin}/v1`,
      LOG_LEVEL: "error",
    },
    stdout: "pipe",
    stderr: "inherit",
  })
  let out = ""
  const reading = (async () => {
    for await (const bytes of serving.stdout) out += Buffer.from(bytes).toString()
  })()
  cleanup.push(async () => {
    serving.kill("SIGTERM")
    await Promise.all([serving.exited, reading])
  })
  const until = <Value>(read: () => Value | Promise<Value>) =>
    untilFound(read, () => `result:\n${out}\n`)
  const hub = await until(() => /Session agent: (\S+)/.exec(out)?.[1])
  const tokenFile = await until(() => /token is in (\S+)/.exec(out)?.[1])
  const headers = { authorization: `Bearer ${(await Bun.file(tokenFile).text()).trim()}` }
  const sent = await fetch(`${hub}/api/threads/birds:1/prompt`, {
    method: "POST",
    headers,
    body: JSON.stringify({ message: "say hello", messageId: "m1" }),
  })
  expect(sent.status).toBe(200)
  await until(() => (model.requests.length > 1 ? true : undefined))
  const said = JSON.stringify(model.requests.at(-1)?.messages)
  expect(said).toContain("echo made > proof.txt")
  const { sessionId } = (await sent.json()) as { readonly sessionId: string }
  const ended = await fetch(`${hub}/api/sandbox/${sessionId}/terminate?wait=1`, {
    method: "POST",
    headers,
  })
  expect(ended.status).toBe(200)
})
