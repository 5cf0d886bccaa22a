/** The session agent as a person has it: `up` in one terminal, `chat` and `sessions` in another, and a kill -9 in between. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { connectClient } from "../hub/kit/client.ts"
import { until } from "../hub/kit/until.ts"
import { createSandbox, requireBinary, type Sandbox } from "../kit/runner.ts"

const binary = requireBinary()
let sandbox: Sandbox
let environment: Record<string, string>

beforeAll(async () => {
  sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  environment = { PATH, HOME, OPENCODE_BIN, SANDPIPER_STATE_DIR, GATEWAY_PORT: "0" }
})
afterAll(() => sandbox.remove())

const addressFile = () => join(sandbox.stateDir, "hub/address.json")
const address = () =>
  JSON.parse(readFileSync(addressFile(), "utf8")) as { url: string; token: string }

const startUp = async () => {
  const child = Bun.spawn([binary, "up"], {
    cwd: sandbox.workDir,
    env: environment,
    stdin: "pipe",
    stdout: Bun.file(join(sandbox.root, "up.out")),
    stderr: Bun.file(join(sandbox.root, "up.err")),
  })
  return child
}

const sandpiper = async (...args: readonly string[]) => {
  const child = Bun.spawn([binary, ...args], {
    env: environment,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  })
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { out, err, code }
}

test("without an up there is nothing to chat with, and it says so", async () => {
  const { err, code } = await sandpiper("chat", "hello")
  expect(err).toContain("sandpiper up")
  expect(code).toBe(2)
})

test("chat and sessions reach it; killed in mid-turn and started again, the conversation is whole and nothing ran twice", async () => {
  const first = await startUp()
  await until(() => existsSync(addressFile()), "address", 60_000)
  expect(statSync(addressFile()).mode & 0o777).toBe(0o600)

  const hello = await sandpiper("chat", "good", "morning")
  expect(hello).toMatchObject({ code: 0, err: "" })
  expect(hello.out).toContain("> good morning")
  expect((await sandpiper("chat", "fail")).code).toBe(1)
  const json = await sandpiper("chat", "--json", "--session", "local", "again")
  const events = json.out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { type: string })
  expect(events[0]?.type).toBe("snapshot")
  expect(events.some(({ type }) => type === "part.delta")).toBeTrue()
  expect((await sandpiper("sessions")).out).toMatch(/^local +idle/)
  expect((await sandpiper("chat", "--session", "nowhere", "x")).code).toBe(2)

  const client = await connectClient(address().url, address().token, { session: "local" })
  const { messageId: ran } = await client.ask({
    type: "prompt",
    content: "run: echo started > started.txt; sleep 6; echo ran >> proof.txt",
  })
  await client.ask({ type: "prompt", content: "good evening" })
  await until(() => existsSync(join(sandbox.workDir, "started.txt")), "running tool", 60_000)
  first.kill("SIGKILL")
  await first.exited

  const before = address().url
  const second = await startUp()
  await until(() => address().url !== before, "new address", 60_000)
  const again = await connectClient(address().url, address().token, { session: "local" })
  await again.until(
    () => again.queue().length === 0 && again.state("agent") !== undefined,
    "empty queue",
    120_000,
  )
  const said = again
    .messages()
    .filter(({ role }) => role === "user")
    .map(({ parts }) => parts[0]?.text)
  expect(said).toEqual([
    "good morning",
    "fail",
    "again",
    "run: echo started > started.txt; sleep 6; echo ran >> proof.txt",
    "good evening",
  ])
  const evening = again.messages().at(-1)
  expect(evening).toMatchObject({ role: "assistant", status: "done" })
  expect(evening?.parts[0]?.text).toContain("> good evening")
  // The demo model died too and has another address now, so the agent was started anew: the turn ended, and ran no more.
  const runs = again.messages().filter(({ role, promptId }) => role !== "user" && promptId === ran)
  expect(runs.filter(({ status }) => status === "streaming")).toEqual([])
  const proof = join(sandbox.workDir, "proof.txt")
  const lines = existsSync(proof) ? readFileSync(proof, "utf8") : ""
  expect(lines).toBe(runs.some(({ status }) => status === "done") ? "ran\n" : "")
  again.close()
  client.close()
  second.kill("SIGTERM")
  expect(await second.exited).toBe(0)
  expect(existsSync(addressFile())).toBeFalse()
}, 300_000)
