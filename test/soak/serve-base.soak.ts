/** Base snapshots of local sandboxes, with the compiled program, real OpenCode and the scripted model. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ServeStack } from "../../src/cli/serve-stack.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import type { FleetStore } from "../../src/fleet/store/ports.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { connectClient } from "../hub/kit/client.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { endSandboxes, postToServe, startServe } from "../kit/serve.ts"

let model: ScriptedModel
let place: Sandbox
let store: FleetStore
let stack: ServeStack
let snapshot = ""

const localRoot = () => join(place.root, "fleet")
const start = (runtimeKey: string) =>
  startServe(place, model, {
    provider: createLocalProvider({
      root: localRoot(),
      self: [requireBinary()],
      clock: systemClock,
    }),
    store: { ...store, close: async () => {} },
    runtimeKey,
  })

beforeAll(async () => {
  model = await startScriptedModel()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  store = openSqliteStore(":memory:")
  stack = await start("v1")
})
afterAll(async () => {
  await endSandboxes(stack, store)
  await stack.stop()
  await store.close()
  await model.stop()
  await place.remove()
})

const call = (path: string, body?: object) => postToServe(stack, path, body)
const filesOf = (session: unknown, ...path: readonly string[]) =>
  join(localRoot(), "files", encodeURIComponent(String(session)), ...path)
const snapshotFolder = () => join(localRoot(), "snapshots", snapshot)

test("a base snapshot is made once, and nothing of the sandbox that it was made in is left", async () => {
  const made = await call("/api/base-snapshot")
  snapshot = String(made["snapshotId"])
  expect(made).toEqual({ snapshotId: expect.any(String), isNew: true })
  expect(await call("/api/base-snapshot")).toEqual({ snapshotId: snapshot, isNew: false })
  expect(readdirSync(join(localRoot(), "boxes"))).toEqual([])
  expect(await store.page(undefined, 10)).toEqual([])
  // Neither the link nor the tokens of that runner are in it.
  expect(readdirSync(join(snapshotFolder(), "state"))).toEqual(["machine"])
  expect(readdirSync(join(snapshotFolder(), "state/machine"))).toEqual(["cache"])
}, 170_000)

test("the first sandbox of a session begins with the base snapshot, and its agent works", async () => {
  writeFileSync(join(snapshotFolder(), "workspace", "from-the-base.txt"), "here\n")
  model.on("hello", [text("Hello.")])
  const { sessionId } = await call("/api/threads/t1/prompt", {
    message: "@@hello@@",
    messageId: "p1",
  })
  const client = await connectClient(stack.hub.url, CLIENT_TOKEN, { session: String(sessionId) })
  await client.until(() => client.answerTo("p1") === "Hello.", "the answer")
  client.close()
  const file = filesOf(sessionId, "workspace", "from-the-base.txt")
  expect(readFileSync(file, "utf8")).toBe("here\n")
}, 170_000)

test("another version does not use it, and a base snapshot that is gone does not prevent a start", async () => {
  await stack.stop()
  stack = await start("v2")
  const other = await call("/api/threads/t2/resolve?wait=1")
  expect(other).toMatchObject({ status: "running", generation: 1 })
  expect(existsSync(filesOf(other["sessionId"], "workspace", "from-the-base.txt"))).toBe(false)
  await stack.stop()
  stack = await start("v1")
  rmSync(snapshotFolder(), { recursive: true })
  const third = await call("/api/threads/t3/resolve?wait=1")
  expect(third).toMatchObject({ status: "running", generation: 1 })
  expect(await store.snapshots()).toEqual([])
}, 170_000)

test("a base snapshot is made again on demand, and the next sandboxes begin with the new one", async () => {
  const first = await call("/api/base-snapshot")
  const second = await call("/api/base-snapshot?again=1")
  expect(second).toMatchObject({ isNew: true })
  expect(second["snapshotId"]).not.toBe(first["snapshotId"])
  snapshot = String(second["snapshotId"])
  writeFileSync(join(snapshotFolder(), "workspace", "from-the-second.txt"), "here\n")
  const { sessionId } = await call("/api/threads/t4/resolve?wait=1")
  expect(existsSync(filesOf(sessionId, "workspace", "from-the-second.txt"))).toBe(true)
}, 170_000)
