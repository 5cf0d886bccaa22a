/** The compiled binary: its flags, `run` in a sandbox and `up` with piped input. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type ScriptedModel, startScriptedModel, text } from "../kit/model.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { createSandbox, requireBinary, type Sandbox, scriptedConfig } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const binary = requireBinary()

const sandpiper = (args: readonly string[], env: Record<string, string> = {}) =>
  runToEnd([binary, ...args], { env })

test("--version prints the version and the commit", async () => {
  const { out, code } = await sandpiper(["--version"])
  expect(out).toMatch(/^sandpiper \d+\.\d+\.\d+ \([0-9a-f]{7,}\)\n$/)
  expect(code).toBe(0)
})

test("--help lists the commands, and help settings lists the settings", async () => {
  const { out, code } = await sandpiper(["--help"])
  expect(out).toContain("sandpiper up")
  expect(out).toContain("sandpiper help settings")
  expect((await sandpiper(["help", "settings"])).out).toContain("DO_WS_URL")
  expect(code).toBe(0)
})

test("a bad setting makes the binary exit with code 2 and names the variable before anything starts", async () => {
  const { err, code } = await sandpiper(["run"], { GATEWAY_PORT: "many" })
  expect(err).toContain("GATEWAY_PORT")
  expect(err).toContain("DO_WS_URL")
  expect(code).toBe(2)
})

test("the binary ignores a bunfig.toml and a .env in the working directory", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "workspace-"))
  await Bun.write(join(cwd, "bunfig.toml"), 'preload = ["./preload.js"]\n')
  await Bun.write(join(cwd, "preload.js"), 'require("node:fs").writeFileSync("ran", "yes")')
  await Bun.write(join(cwd, ".env"), "GATEWAY_PORT=many\n")
  const { err, code } = await runToEnd([binary, "run"], { env: {}, cwd })
  expect(code).toBe(2)
  expect(err).toContain("DO_WS_URL")
  expect(err).not.toContain("GATEWAY_PORT")
  expect(await readdir(cwd)).not.toContain("ran")
  await rm(cwd, { recursive: true })
})

describe("sandpiper run", () => {
  let model: ScriptedModel
  let agent: TestSessionAgent
  let sandbox: Sandbox

  beforeAll(async () => {
    model = await startScriptedModel()
    agent = startTestSessionAgent({ config: scriptedConfig(model) })
    sandbox = await createSandbox(agent)
  })

  afterAll(async () => {
    await sandbox.remove()
    await agent.stop()
    await model.stop()
  })

  test("run serves /health, completes a prompt, exits with code 0 on SIGTERM and leaves no process behind", async () => {
    model.on("hi", [text("hello from the binary", { chunks: 3 })])
    const child = Bun.spawn([binary, "run"], {
      env: sandbox.environment,
      stdin: "ignore",
      stdout: "ignore",
      stderr: Bun.file(join(sandbox.root, "runner.log")),
    })
    const log = () => Bun.file(join(sandbox.root, "runner.log")).text()
    await agent.frame("agentStatus", ({ status }) => status === "idle")
    const port = /daemon.started","gatewayPort":(\d+)/.exec(await log())?.[1]
    expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200)
    expect((await fetch(`http://127.0.0.1:${port}/anything-else`)).status).toBe(404)

    agent.say({ type: "prompt", messageId: "p1", content: "@@hi@@" })
    const { finalText } = await agent.frame("message.finalize")
    expect(finalText).toBe("hello from the binary")
    await agent.frame("complete")

    const opencode = Number(/"pid":(\d+)/.exec(await log())?.[1])
    expect(isAlive(opencode)).toBeTrue()
    child.kill("SIGTERM")
    expect(await child.exited).toBe(0)
    expect(isAlive(opencode)).toBeFalse()
    expect(await log()).not.toContain(agent.token)
  })
})

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test("up without a provider key answers the prompts from its standard input and exits with code 0", async () => {
  const sandbox = await createSandbox({ url: "ws://127.0.0.1:1/", token: "unused" })
  const { PATH = "", HOME = "", OPENCODE_BIN = "", SANDPIPER_STATE_DIR = "" } = sandbox.environment
  const { out, err, code } = await runToEnd([binary, "up"], {
    cwd: sandbox.workDir,
    env: { PATH, HOME, OPENCODE_BIN, SANDPIPER_STATE_DIR, GATEWAY_PORT: "0" },
    input: "good morning\nrun: echo it really ran > proof.txt; cat proof.txt\n",
  })
  expect(err).toBe("")
  expect(out).toContain("scripted demo model")
  expect(out).toContain("> good morning")
  expect(out).toContain("it really ran")
  expect(await Bun.file(join(sandbox.workDir, "proof.txt")).text()).toBe("it really ran\n")
  expect(code).toBe(0)
  await sandbox.remove()
})
