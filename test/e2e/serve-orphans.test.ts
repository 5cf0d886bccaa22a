/**
 * `serve` ends and does not come back, with the compiled binary and local sandboxes: they end after SANDBOX_ORPHAN_SECONDS, and a later
 * `serve` goes on with their conversations and files. One that comes in time finds them as they were.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { isAlive, type ProcessIdentity, readProcess } from "../../src/lib/process-identity.ts"
import { commandOf, descendantsOf, listProcesses } from "../../src/runner/host/processes.ts"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, type Sandbox } from "../kit/runner.ts"
import { type ServeProcess, startServeProcess } from "../kit/serve-process.ts"
import { untilTrue } from "../kit/until-true.ts"

let model: ScriptedModel
let place: Sandbox
let serve: ServeProcess | undefined
let client: TestClient | undefined
let session = ""

beforeAll(async () => {
  model = await startScriptedModel()
})
afterAll(() => model.stop())
beforeEach(async () => {
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  session = ""
})
afterEach(async () => {
  client?.close()
  await serve?.stop()
  await place.remove()
})

const start = async (seconds: number): Promise<ServeProcess> => {
  serve = await startServeProcess(place, {
    SANDBOX_ISOLATION: "none",
    SANDBOX_ORPHAN_SECONDS: String(seconds),
    OPENAI_BASE_URL: model.url,
    OPENAI_API_KEY: model.apiKey,
    SANDPIPER_MODEL: "m1",
    SANDPIPER_TOOLS: "all",
    SANDPIPER_LOCAL_MODELS: "none",
  })
  return serve
}
const end = async (signal: NodeJS.Signals): Promise<void> => {
  client?.close()
  await serve?.end(signal)
  serve = undefined
}
/** The answer to a prompt of the one thread. */
const say = async ({ call, address }: ServeProcess, name: string): Promise<string> => {
  const sent = await call("/api/threads/T1/prompt", { message: `@@${name}@@`, messageId: name })
  session = String(sent["sessionId"])
  const { url, token } = address()
  client = await connectClient(url, token, { session })
  const isAnswered = () =>
    client
      ?.messages()
      .some(
        ({ role, promptId, status }) =>
          role === "assistant" && promptId === name && status !== "streaming",
      ) === true
  await client.until(isAnswered, `the answer to ${name}`, 100_000)
  return client.answerTo(name)
}
/** Remembers a word in the conversation and in a file. */
const begin = async (on: ServeProcess): Promise<void> => {
  model.on("begin", [
    tool("bash", { command: "echo kept >work.txt", description: "write" }),
    text("It is written."),
  ])
  expect(await say(on, "begin")).toBe("It is written.")
}
const goOn = async (on: ServeProcess): Promise<void> => {
  model.on("go-on", [
    tool("bash", { command: "cat work.txt", description: "read" }),
    text("It is still there."),
  ])
  expect(await say(on, "go-on")).toBe("It is still there.")
  const given = JSON.stringify(model.requests.at(-1)?.messages)
  expect([
    given.includes("@@begin@@"),
    given.includes("It is written."),
    given.includes("kept\\n"),
  ]).toEqual([true, true, true])
}

const identityOf = (pid: number): ProcessIdentity => {
  const found = readProcess(pid)
  if (found === undefined) throw new Error(`${pid} does not run`)
  return found
}
const recorded = () => {
  const boxes = join(place.stateDir, "fleet", "local", "boxes")
  return readdirSync(boxes).map(
    (name) =>
      JSON.parse(readFileSync(join(boxes, name, "box.json"), "utf8")) as {
        readonly process: { readonly pid: number }
      },
  )
}
/** The runner of the sandbox and all its descendants. */
const processesOfBox = (): readonly ProcessIdentity[] => {
  const table = listProcesses()
  const roots = recorded().map(({ process }) => identityOf(process.pid))
  return roots.flatMap((root) => [root, ...descendantsOf(root.pid, table)])
}
const watchdogsOf = ({ pid }: ServeProcess): readonly ProcessIdentity[] =>
  listProcesses().filter((one) => one.parent === pid && commandOf(one.pid).includes("watchdog"))
const areOver = (all: readonly ProcessIdentity[]) =>
  untilTrue(
    () => !all.some(isAlive),
    () =>
      `end of ${all
        .filter(isAlive)
        .map(({ pid }) => commandOf(pid))
        .join(", ")}`,
  )

test("the sandbox of a `serve` that was killed ends after SANDBOX_ORPHAN_SECONDS with all its processes, and the next `serve` goes on with its conversation and files", async () => {
  const first = await start(1)
  await begin(first)
  const processes = [...processesOfBox(), ...watchdogsOf(first)]
  expect(processes.some(({ pid }) => commandOf(pid).includes("opencode serve"))).toBe(true)
  await end("SIGKILL")
  await areOver(processes)
  const next = await start(600)
  // Otherwise the fleet waits for a connection of the runner for a minute before it looks.
  next.output("fleet", "sweep")
  await goOn(next)
  expect(client?.messages().some(({ promptId }) => promptId === "begin")).toBe(true)
})

test("a paused sandbox of a `serve` that was stopped ends in the same way, and the next `serve` wakes it from its disk", async () => {
  const first = await start(1)
  await begin(first)
  const paused = await first.call(`/api/sandbox/${session}/pause?wait=1`, {})
  expect(paused["status"]).toBe("paused")
  const processes = [...processesOfBox(), ...watchdogsOf(first)]
  await end("SIGTERM")
  await areOver(processes)
  await goOn(await start(600))
})

test("a `serve` that comes in time ends the watchdog of the former one and uses the sandbox that runs", async () => {
  const first = await start(600)
  await begin(first)
  const processes = processesOfBox()
  const watchdogs = watchdogsOf(first)
  expect(watchdogs).toHaveLength(1)
  await end("SIGKILL")
  expect(watchdogs.filter(isAlive)).toHaveLength(1)
  const next = await start(600)
  await areOver(watchdogs)
  expect(watchdogsOf(next)).toHaveLength(1)
  await goOn(next)
  const [runner] = processes
  expect(runner && isAlive(runner)).toBe(true)
})
