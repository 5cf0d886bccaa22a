/** `complete_session` in the first session of `up`, with the compiled binary: `up` and its other sessions go on. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { connectClient, type TestClient } from "../hub/kit/client.ts"
import { freePort } from "../kit/free-port.ts"
import { type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"

const LONG_MS = 120_000
let model: ScriptedModel
let sandbox: Sandbox
let up: Bun.Subprocess
const clients: TestClient[] = []

const address = () => {
  const file = join(sandbox.stateDir, "hub/address.json")
  return JSON.parse(readFileSync(file, "utf8")) as { url: string; token: string }
}
const connect = async (session: string): Promise<TestClient> => {
  const client = await connectClient(address().url, address().token, { session })
  clients.push(client)
  return client
}
const statusOf = (client: TestClient) =>
  (client.state("agent") as { status?: string } | undefined)?.status

beforeAll(async () => {
  model = await startScriptedModel()
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  up = Bun.spawn([requireBinary(), "up"], {
    cwd: sandbox.workDir,
    env: {
      PATH,
      HOME,
      OPENCODE_BIN,
      SANDPIPER_STATE_DIR,
      GATEWAY_PORT: String(freePort()),
      OPENAI_BASE_URL: model.url,
      OPENAI_API_KEY: model.apiKey,
      SANDPIPER_MODEL: "m1",
      SANDPIPER_TOOLS: "all",
      SANDPIPER_LOCAL_MODELS: "none",
    },
    stdin: "pipe",
    stdout: Bun.file(join(sandbox.root, "up.out")),
    stderr: Bun.file(join(sandbox.root, "up.err")),
  })
  await untilTrue(
    () => existsSync(join(sandbox.stateDir, "hub/address.json")),
    "the address of the hub",
    LONG_MS,
  )
})
afterAll(async () => {
  for (const client of clients) client.close()
  up.kill("SIGTERM")
  await up.exited
  await model.stop()
  await sandbox.remove()
})

test("complete_session in the first session of up ends its conversation only: a command of a second session runs to its end, and the next prompt starts afresh", async () => {
  const first = await connect("local")
  await first.until(() => statusOf(first) === "idle", "the first agent", LONG_MS)
  const made = await fetch(`${address().url}/sessions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${address().token}` },
    body: JSON.stringify({ workspace: "same" }),
  })
  const { session } = (await made.json()) as { session: string }
  const second = await connect(session)
  const open = join(sandbox.root, "open")
  const command = `until [ -e ${open} ]; do sleep 0.1; done; echo whole`
  model.on("wait", [tool("bash", { command, description: "wait" }), text("it ran to its end")])
  const other = await second.ask({ type: "prompt", content: "@@wait@@" })
  await second.until(() => statusOf(second) === "tool_calling", "the running command", LONG_MS)

  model.on("finish", [tool("complete_session", {}), text("all is done")])
  await first.ask({ type: "prompt", content: "@@finish@@" })
  const says = (words: string) =>
    first.messages().some(({ parts }) => parts.some((part) => part.text?.includes(words)))
  await first.until(() => says("The next prompt starts a new conversation"), "the note", LONG_MS)
  await first.until(() => statusOf(first) === "idle", "the end of the turn")

  // The running command is the barrier: it ends only after the first session has gone on.
  model.on("afresh", [text("a new start")])
  const fresh = async () => {
    const { messageId } = await first.ask({ type: "prompt", content: "@@afresh@@" })
    await first.until(() => first.answerTo(String(messageId)) !== "", "an answer", LONG_MS)
    return first.answerTo(String(messageId))
  }
  expect(await fresh()).toBe("a new start")
  expect(JSON.stringify(model.requests.at(-1)?.messages)).not.toContain("@@finish@@")
  await Bun.write(open, "")
  await second.until(
    () => second.answerTo(String(other["messageId"])) === "it ran to its end",
    "the answer of the second session",
    LONG_MS,
  )
  expect(first.state("session")).toBeUndefined()
  expect(up.exitCode).toBe(null)
})
