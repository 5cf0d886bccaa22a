/** Hub, fleet and isolated sandboxes with a network policy, with real OpenCode and the scripted model. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import { loopbackPorts } from "../../src/fleet/providers/local-isolated.ts"
import { probeMachine } from "../../src/fleet/providers/local-machine.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, runnerFromSource, type Sandbox } from "../kit/runner.ts"
import { startServe } from "../kit/serve.ts"
import { untilTrue } from "../kit/until-true.ts"

const repository = join(import.meta.dir, "../..")
let model: ScriptedModel
let place: Sandbox
let stack: ServeStack
let client: TestClient
let session = ""

beforeAll(async () => {
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  const root = join(place.root, "fleet")
  const { isolation } = await probeMachine(join(root, "probe"))
  if (!isolation) throw new Error("this machine has no isolation")
  stack = await startServe(place, model, {
    provider: createLocalProvider({
      root,
      self: runnerFromSource,
      clock: systemClock,
      isolated: {
        isolation,
        programs: [repository],
        variables: { OPENCODE_BIN: place.environment["OPENCODE_BIN"] ?? "" },
        hostPorts: () => loopbackPorts([model.url]),
        egress: {
          argv: [...runnerFromSource, "egress-proxy"],
          environment: { PATH: place.environment["PATH"] ?? "" },
          via: undefined,
          hosts: () => ["allowed.example"],
        },
      },
    }),
    store: openSqliteStore(join(place.root, "fleet.db")),
    environment: { SANDBOX_EGRESS: "allow-list", SANDBOX_EGRESS_HOSTS: "allowed.example" },
  })
})
afterAll(async () => {
  client?.close()
  await call(`/api/sandbox/${session}/terminate?wait=1`)
  await stack.stop()
  await model.stop()
  await place.remove()
})

const call = async (path: string, body?: object) => {
  const response = await fetch(`${stack.hub.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}
const say = async (messageId: string, message: string): Promise<string> => {
  const sent = await call("/api/threads/T1/prompt", { message, messageId })
  expect(sent.status).toBe(200)
  if (session === "") {
    session = String(sent.body["sessionId"])
    client = await connectClient(stack.hub.url, CLIENT_TOKEN, { session })
  }
  const answered = () =>
    client
      .messages()
      .some(
        ({ role, promptId, status }) =>
          role === "assistant" && promptId === messageId && status !== "streaming",
      )
  await client.until(answered, `the answer to ${messageId}`, 100_000)
  return client.answerTo(messageId)
}
/** The output of the last tool, as the model was given it. */
const shown = (): string => JSON.stringify(model.requests.at(-1)?.messages.at(-1) ?? "")
const bash = (command: string) => tool("bash", { command, description: "try" })

test("an agent in an isolated sandbox answers, and a refused host is reported in the conversation", async () => {
  const command =
    "id -u; pwd; echo kept > work.txt; python3 -c 'import urllib.request; urllib.request.urlopen(\"http://refused.example/\")' 2>&1 | tail -1; exec 3<>/dev/tcp/1.1.1.1/443 || echo no-direct-way"
  model.on("look", [bash(command), text("Looked.")])
  expect(await say("p1", "@@look@@")).toBe("Looked.")
  expect(shown()).toContain("1000\\n/workspace")
  expect(shown()).toContain("403")
  expect(shown()).toContain("no-direct-way")
  const isNote = () =>
    client
      .messages()
      .some(({ parts }) => parts.some((part) => part.text?.includes("refused.example:80") === true))
  await client.until(isNote, "the message about the refused host")
})

test("a website of a hibernated sandbox is served again by the next one, and no one has to start it", async () => {
  const site = { template: "static", directory: "site" }
  const { body: started } = await call(`/api/sandbox/${session}/bootstrap-website`, site)
  const isServed = async () => {
    const script = `import urllib.request; urllib.request.urlopen("http://127.0.0.1:${String(started["port"])}/")`
    const run = { command: "python3", args: ["-c", script] }
    return (await call(`/api/sandbox/${session}/exec`, run)).body["exitCode"] === 0
  }
  expect(await isServed()).toBe(true)
  await call(`/api/sandbox/${session}/hibernate?wait=1`)
  await untilTrue(isServed, "the website in the next sandbox")
})

test("a hibernated sandbox is restored from its layer, with its files", async () => {
  const asleep = await call(`/api/sandbox/${session}/hibernate?wait=1`)
  expect(asleep.body).toMatchObject({ status: "paused", providerSandboxId: null })
  model.on("restored", [bash("cat work.txt"), text("Restored.")])
  expect(await say("p2", "@@restored@@")).toBe("Restored.")
  expect(shown()).toContain("kept")
})
