/** What callers of the compiled `serve` ask of a session arrives at its agent and its sandbox, whichever way it was started. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { untilTrue, WAIT_MS } from "../kit/until-true.ts"

let model: ScriptedModel
let place: Sandbox
let serve: Bun.Subprocess
const clients: TestClient[] = []

const read = (file: string) => readFileSync(join(place.stateDir, "fleet", file), "utf8").trim()
const url = () => `http://127.0.0.1:${read("hub-port")}`
const call = async (method: string, path: string, body?: object) => {
  const response = await fetch(`${url()}${path}`, {
    method,
    headers: { authorization: `Bearer ${read("operator-token")}` },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}
const listed = async () => {
  const { body } = await call("GET", "/api/sandboxes")
  return body["sandboxes"] as readonly { readonly sessionId: string; readonly status: string }[]
}
const statusOf = async (session: string) =>
  (await call("GET", `/api/sandbox/${session}/status`)).body["status"]
const watch = async (session: string): Promise<TestClient> => {
  const view = await connectClient(url(), read("operator-token"), { session })
  clients.push(view)
  return view
}
/** Sends a prompt and resolves with the names of the tools that the model was offered. */
const toolsOf = async (view: TestClient, name: string): Promise<readonly string[]> => {
  model.on(name, [text(`${name} done`)])
  const { messageId } = await view.ask({ type: "prompt", content: `@@${name}@@` })
  await view.until(() => view.answerTo(String(messageId)) === `${name} done`, name)
  const request = model.requests.findLast(({ messages }) => JSON.stringify(messages).includes(name))
  return (request?.tools ?? []).map((one) => one.function.name)
}

/** `pool`: how many sandboxes are kept ready. */
const start = (pool: number) => {
  const { PATH = "", HOME = "", OPENCODE_BIN = "" } = place.environment
  serve = Bun.spawn(
    [requireBinary(), "serve", "--state-dir", place.stateDir, "--log-level", "error"],
    {
      env: { PATH, HOME, OPENCODE_BIN, SANDBOX_ISOLATION: "none", SANDBOX_POOL: String(pool) },
      cwd: place.workDir,
      stdout: "ignore",
      stderr: "inherit",
    },
  )
}
const stop = async () => {
  serve.kill("SIGTERM")
  await serve.exited
}
const present = async () => (await listed()).filter(({ status }) => status !== "terminated")
const isFull = () =>
  untilTrue(async () => {
    const sandboxes = await present().catch(() => [])
    return sandboxes.some(
      ({ sessionId, status }) => sessionId.startsWith("warm-") && status === "running",
    )
  }, "a sandbox of the pool")

beforeAll(async () => {
  model = await startScriptedModel({ title: "A title of the model" })
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  start(1)
  await isFull()
})
afterAll(async () => {
  try {
    for (const client of clients) client.close()
    // A `serve` without a pool ends the sandboxes that wait in it.
    await stop()
    start(0)
    await untilTrue(async () => (await listed().catch(() => [])).length > 0, "serve")
    for (const { sessionId } of await present())
      await call("POST", `/api/sandbox/${sessionId}/terminate`)
    await untilTrue(async () => (await present()).length === 0, "end of the sandboxes")
  } finally {
    await stop()
    await model.stop()
    await place.remove()
  }
})

for (const [way, create] of [
  ["that is started for it", (body: object) => call("PUT", "/sessions/cold", body)],
  ["of the warm pool", (body: object) => call("POST", "/sessions", body)],
] as const)
  test(`a session with a sandbox ${way} has the tools and the title that it was created with`, async () => {
    await isFull()
    const fields = { title: "Count the waders", config: scriptedConfig(model) }
    const { status, body } = await create({
      ...fields,
      config: { ...fields.config, tools: { memory_read: false } },
    })
    expect(status).toBe(201)
    const session = String(body["session"])
    expect(session.startsWith("warm-")).toBe(way === "of the warm pool")
    const view = await watch(session)
    const tools = await toolsOf(view, `count-${session}`)
    expect(tools).toContain("memory_write")
    expect(tools).not.toContain("memory_read")
    // The model has named the conversation, too.
    await untilTrue(async () => model.titleRequests.length > 0, "the model's title")
    await toolsOf(view, `again-${session}`)
    expect(view.state("title")).toBe("Count the waders")
  }, 170_000)

test("a child session has the tools of its parent and the title that its parent gave it", async () => {
  const config = { ...scriptedConfig(model), tools: { memory_read: false } }
  expect((await call("PUT", "/sessions/parent", { config })).status).toBe(201)
  const parent = await watch("parent")
  model.on("count-chicks", [text("Three.")])
  model.on("brood", [
    tool("spawn_session", { task: "@@count-chicks@@", workspace: "nest", title: "Count chicks" }),
    text("A child counts."),
  ])
  const { messageId } = await parent.ask({ type: "prompt", content: "@@brood@@" })
  const isAnswered = () => parent.answerTo(String(messageId)) === "A child counts."
  await parent.until(isAnswered, "the child")
  const child = (await listed()).find(({ sessionId }) => sessionId.startsWith("child-"))
  const view = await watch(child?.sessionId ?? "")
  const answer = (said: string) =>
    view.messages().some(({ parts }) => parts.some((part) => part.text === said))
  await view.until(() => answer("Three."), "the answer of the child")
  // The parent's requests name the task too, in the call of its tool.
  const isOfChild = (sent: unknown) =>
    JSON.stringify(sent).includes("@@count-chicks@@") && !JSON.stringify(sent).includes("@@brood@@")
  const request = model.requests.find(({ messages }) => isOfChild(messages))
  const offered = (request?.tools ?? []).map((one) => one.function.name)
  expect(offered).toContain("memory_write")
  expect(offered).not.toContain("memory_read")
  const isNamed = async () => model.titleRequests.some(({ messages }) => isOfChild(messages))
  await untilTrue(isNamed, "the model's title of the child")
  await toolsOf(view, "again-chicks")
  expect(view.state("title")).toBe("Count chicks")
}, 170_000)

test("a sandbox that is paused while a prompt waits for its agent answers the prompt and sleeps then", async () => {
  await call("PUT", "/sessions/early", { config: scriptedConfig(model) })
  const view = await watch("early")
  model.on("early", [text("Answered.")])
  const { messageId } = await view.ask({ type: "prompt", content: "@@early@@" })
  await untilTrue(async () => (await statusOf("early")) === "running", "the runner")
  // The runner is connected, and OpenCode in it starts.
  expect(view.queue()).toHaveLength(1)
  expect((await call("POST", "/api/sandbox/early/pause")).status).toBe(200)
  await view.until(() => view.answerTo(String(messageId)) === "Answered.", "the answer")
  await untilTrue(async () => (await statusOf("early")) === "paused", "the sleep")
}, 170_000)

test("a link to the terminal or a tunnel of a paused or hibernated sandbox opens", async () => {
  // Sandboxes without isolation share the network of this process.
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("waders") })
  try {
    const view = await watch("early")
    const tunnel = { name: "web", port: server.port }
    model.on("tunnel", [tool("register_tunnel", tunnel), text("Open.")])
    const asked = await call("POST", "/sessions/early/prompt", { content: "@@tunnel@@" })
    const messageId = String(asked.body["messageId"])
    await view.until(() => view.answerTo(messageId) === "Open.", "the tunnel")
    for (const verb of ["pause", "hibernate"])
      for (const to of ["terminal", "tunnel:web"]) {
        const asleep = await call("POST", `/api/sandbox/early/${verb}?wait=1`)
        expect(asleep.body["status"]).toBe("paused")
        const link = await call("POST", "/sessions/early/links", { to })
        const opened = await fetch(String(link.body["url"]), {
          signal: AbortSignal.timeout(WAIT_MS),
        })
        expect([verb, to, opened.status]).toEqual([verb, to, 200])
        if (to !== "terminal") expect(await opened.text()).toBe("waders")
      }
  } finally {
    await server.stop(true)
  }
}, 170_000)

test("a thread that is stopped runs nothing that was queued, and sleeps", async () => {
  const { body } = await call("POST", "/api/threads/T:1/prompt", {
    message: "run: sleep 300; echo late",
  })
  const session = String(body["sessionId"])
  await call("POST", "/api/threads/T:1/prompt", { message: "run: echo later" })
  expect((await call("POST", "/api/threads/T:1/stop")).status).toBe(200)
  await untilTrue(async () => (await statusOf(session)) === "paused", "the sleep")
  const view = await watch(session)
  expect(view.queue()).toEqual([])
  expect(JSON.stringify(view.messages())).not.toContain("gave:")
}, 170_000)
