/** `sandpiper up` with `chat` and `sessions` beside it, and SIGKILL during turns. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { connectClient } from "../hub/kit/client.ts"
import { freePort } from "../kit/free-port.ts"
import { untilTrue } from "../kit/until-true.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"

const binary = requireBinary()
let sandbox: Sandbox
let environment: Record<string, string>

beforeAll(async () => {
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  // A fixed port, as by default: OpenCode's tools store it.
  const GATEWAY_PORT = String(freePort())
  environment = { PATH, HOME, OPENCODE_BIN, SANDPIPER_STATE_DIR, GATEWAY_PORT }
})
// A failed test must not leave an `up`. SIGTERM: a killed one leaves its OpenCode to the next.
afterAll(async () => {
  for (const child of started) child.kill("SIGTERM")
  await Promise.all(started.map((child) => child.exited))
  await sandbox.remove()
})

const addressFile = () => join(sandbox.stateDir, "hub/address.json")
const address = () =>
  JSON.parse(readFileSync(addressFile(), "utf8")) as { url: string; token: string }

const openCodePid = () =>
  (
    JSON.parse(readFileSync(join(sandbox.stateDir, "session/opencode-run.json"), "utf8")) as {
      pid: number
    }
  ).pid

const started: Bun.Subprocess[] = []
const startUp = async () => {
  const child = Bun.spawn([binary, "up"], {
    cwd: sandbox.workDir,
    env: environment,
    stdin: "pipe",
    stdout: Bun.file(join(sandbox.root, "up.out")),
    stderr: Bun.file(join(sandbox.root, "up.err")),
  })
  started.push(child)
  return child
}

const sandpiper = (...args: readonly string[]) => runToEnd([binary, ...args], { env: environment })

test("chat without a running up fails and names the command to start", async () => {
  const { err, code } = await sandpiper("chat", "hello")
  expect(err).toContain("sandpiper up")
  expect(code).toBe(2)
})

const restart = async (killed: Bun.Subprocess) => {
  const before = address().url
  killed.kill("SIGKILL")
  await killed.exited
  const next = await startUp()
  await untilTrue(() => address().url !== before, "new address")
  return next
}

const connect = () => connectClient(address().url, address().token, { session: "local" })

test("chat and sessions reach up, and after a SIGKILL during a turn the same OpenCode continues and every answer is complete", async () => {
  const first = await startUp()
  await untilTrue(() => existsSync(addressFile()), "address")
  expect(statSync(addressFile()).mode & 0o777).toBe(0o600)

  const hello = await sandpiper("chat", "good", "morning")
  expect(hello).toMatchObject({ code: 0, err: "" })
  expect(hello.out).toContain("> good morning")
  expect((await sandpiper("chat", "fail")).code).toBe(1)
  const named = await sandpiper("chat", "-m", "demo-1", "with a model without provider")
  expect(named).toMatchObject({ code: 0, err: "" })
  const unknown = await sandpiper("chat", "-m", "demo-9", "hello")
  expect(unknown.code).toBe(1)
  expect(unknown.out).toContain("such as demo/demo-1")
  const json = await sandpiper("chat", "--json", "--session", "local", "again")
  const events = json.out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { type: string })
  expect(events[0]?.type).toBe("snapshot")
  expect(events.some(({ type }) => type === "part.delta")).toBeTrue()
  expect((await sandpiper("sessions")).out).toMatch(/^local +idle/)
  expect((await sandpiper("chat", "--session", "nowhere", "x")).code).toBe(2)

  // Killed while a tool runs: the turn loses nothing, because the demo model is back before it is needed.
  const run =
    "run: echo started > started.txt; until [ -e go.txt ]; do sleep 0.1; done; echo ran >> proof.txt"
  const openCode = openCodePid()
  const client = await connect()
  const { messageId: ran } = await client.ask({
    type: "prompt",
    content: run,
    clientRequestId: "run",
  })
  await client.ask({ type: "prompt", content: "good evening", clientRequestId: "evening" })
  await untilTrue(() => existsSync(join(sandbox.workDir, "started.txt")), "running tool")
  const second = await restart(first)
  const again = await connect()
  writeFileSync(join(sandbox.workDir, "go.txt"), "")
  await again.until(() => again.queue().length === 0, "empty queue", 120_000)
  expect(openCodePid()).toBe(openCode)
  expect(again.state("agent")).toEqual({ status: "idle" })
  expect(readFileSync(join(sandbox.workDir, "proof.txt"), "utf8")).toBe("ran\n")
  expect(again.answerTo(String(ran))).toBe(
    `\`${run.slice("run: ".length)}\` in the sandbox gave:\n\n> (no output)\n\n_I am the scripted demo model, not an LLM._`,
  )
  const evening = again.messages().at(-1)
  expect(evening).toMatchObject({ role: "assistant", status: "done" })
  const whole = evening?.parts[0]?.text ?? ""
  expect(whole).toContain("> good evening")

  // Killed while the model streams: OpenCode repeats the request, and the cut text stays before the answer.
  const { messageId: cut } = await again.ask({
    type: "prompt",
    content: "good evening",
    clientRequestId: "cut",
  })
  await again.until(() => again.answerTo(String(cut)).length > 20, "first part of the answer")
  const third = await restart(second)
  const last = await connect()
  await last.until(() => last.queue().length === 0, "empty queue", 120_000)
  expect(openCodePid()).toBe(openCode)
  const answers = last
    .messages()
    .filter(({ role, promptId }) => role === "assistant" && promptId === cut)
  expect(answers.map(({ status }) => status)).toEqual(["done"])
  const texts = answers[0]?.parts.map(({ text = "" }) => text) ?? []
  expect(texts.at(-1)).toBe(whole)
  for (const text of texts) expect(whole.startsWith(text)).toBeTrue()

  expect(
    last
      .messages()
      .filter(({ role }) => role === "user")
      .map(({ parts }) => parts[0]?.text),
  ).toEqual([
    "good morning",
    "fail",
    "with a model without provider",
    "hello",
    "again",
    run,
    "good evening",
    "good evening",
  ])
  for (const connection of [client, again, last]) connection.close()
  third.kill("SIGTERM")
  expect(await third.exited).toBe(0)
  expect(existsSync(addressFile())).toBeFalse()
}, 300_000)
