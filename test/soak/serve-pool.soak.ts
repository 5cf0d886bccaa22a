/** The warm pool of local sandboxes, with the compiled program, real OpenCode and the scripted model. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { isReady } from "../../src/fleet/core/pool.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { endSandboxes, postToServe, startServe } from "../kit/serve.ts"
import { untilTrue } from "../kit/until-true.ts"

const SECRET = "ghp_tokenOfTheOwnerCarol"
let model: ScriptedModel
let place: Sandbox
let store: FleetStore
let stack: ServeStack
let client: TestClient | undefined

const localRoot = () => join(place.root, "fleet")

beforeAll(async () => {
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  store = openSqliteStore(":memory:")
  stack = await startServe(place, model, {
    provider: createLocalProvider({
      root: localRoot(),
      self: [requireBinary()],
      clock: systemClock,
    }),
    store: { ...store, close: async () => {} },
    poolSize: 1,
    environment: { GITHUB_TOKENS: JSON.stringify({ "user:carol": SECRET }) },
  })
})
afterAll(async () => {
  client?.close()
  await stack.pool.stop()
  await endSandboxes(stack, store)
  await stack.stop()
  await store.close()
  await model.stop()
  await place.remove()
})

const waiting = async () =>
  (await store.pooled()).find(({ kind, life }) => kind === "pool" && isReady(life))
const untilFull = () =>
  untilTrue(async () => (await waiting()) !== undefined, "a sandbox in the pool", 50_000)
const boxOf = (ref: string) =>
  JSON.parse(readFileSync(join(localRoot(), "boxes", ref, "box.json"), "utf8")) as {
    readonly process: { readonly pid: number }
  }

test("a thread's first prompt is answered in a sandbox that was started ahead, and another one takes its place", async () => {
  await untilFull()
  const warm = await waiting()
  const id = warm?.id ?? ""
  const { pid } = boxOf(String(warm?.life.ref)).process
  // Nothing of any owner has been in this process.
  expect(readFileSync(`/proc/${pid}/environ`, "utf8")).not.toContain(SECRET)

  model.on("nest", [
    tool("bash", { command: "echo twig > nest.txt", description: "write" }),
    text("Built."),
  ])
  const prompt = { message: "@@nest@@", messageId: "p1" }
  expect(await postToServe(stack, "/api/threads/C1:1/prompt", prompt)).toMatchObject({
    sessionId: id,
    status: "running",
    generation: 1,
  })
  const view = await connectClient(stack.hub.url, CLIENT_TOKEN, { session: id })
  client = view
  await view.until(() => view.answerTo("p1") === "Built.", "the answer", 50_000)
  const workspace = join(localRoot(), "files", encodeURIComponent(id), "workspace")
  expect(readFileSync(join(workspace, "nest.txt"), "utf8")).toBe("twig\n")
  // The very process that waited has worked.
  expect(boxOf(String(warm?.life.ref)).process.pid).toBe(pid)
  expect(existsSync(`/proc/${pid}`)).toBe(true)

  await untilFull()
  expect((await waiting())?.id).not.toBe(id)
  expect(readdirSync(join(localRoot(), "boxes"))).toHaveLength(2)
}, 170_000)
