/** Difficult starts: a port in use, a configuration that makes OpenCode exit, a flood of log lines. */
import { describe, expect, test } from "bun:test"
import { chmod, mkdir } from "node:fs/promises"
import { join } from "node:path"
import { text } from "../kit/model.ts"
import { agentPid, processesOf } from "../kit/processes.ts"
import {
  createSandbox,
  type Sandbox,
  scriptedConfig,
  startRunner,
  type TestRunner,
} from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { useStage } from "../kit/stage.ts"

const stage = useStage()
let agent: TestSessionAgent
let sandbox: Sandbox
let runner: TestRunner

/** Starts OpenCode through a wrapper script that runs `first` before it. */
const start = async (first: string, extra: Record<string, string> = {}) => {
  agent = stage.put(startTestSessionAgent({ config: scriptedConfig(stage.model()) }))
  sandbox = await createSandbox(agent)
  const wrapper = join(sandbox.root, "opencode")
  const real = sandbox.environment["OPENCODE_BIN"]
  await Bun.write(wrapper, `#!/bin/sh\n${first}\nexec ${real} "$@"\n`)
  await chmod(wrapper, 0o755)
  runner = stage.put(await startRunner(agent, { OPENCODE_BIN: wrapper, ...extra }, { in: sandbox }))
  return runner
}

const idle = () => agent.frame("agentStatus", ({ status }) => status === "idle")

const replies = () => agent.frames.filter((frame) => frame.type === "opencode-config-applied")

const prompt = async (messageId: string) => {
  stage.model().enqueue(text(`${messageId} works`))
  agent.say({ type: "prompt", messageId, content: "hello" })
  const { finalText } = await agent.frame(
    "message.finalize",
    (frame) => frame.messageId === messageId,
  )
  expect(finalText).toBe(`${messageId} works`)
}

test("a foreign process on the port is named and not ended, and OpenCode starts when it is gone", async () => {
  const script = `const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("mine") })
    console.log(server.port)`
  const foreign = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" })
  const reader = foreign.stdout.getReader()
  const port = Number(new TextDecoder().decode((await reader.read()).value).trim())
  await start("", { OPENCODE_URL: `http://127.0.0.1:${port}` })

  await agent.until(() => replies().length === 1, "a reply")
  const error = replies()[0]?.error ?? ""
  expect(replies()[0]).toMatchObject({ success: false })
  expect(error).toContain(`port ${port}`)
  expect(error).toContain(`pid ${foreign.pid} (`)
  expect(error).toContain("bun")
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("mine")
  expect(
    agent.frames.some((frame) => frame.type === "agentStatus" && frame.status === "idle"),
  ).toBe(false)

  foreign.kill()
  await foreign.exited
  await idle()
  expect(replies()).toHaveLength(1)
})

describe("a configuration that fails", () => {
  test("a configuration that makes OpenCode exit is refused with its last log lines, and the former one works", async () => {
    await start(
      `if grep -qs lethal "$OPENCODE_CONFIG_DIR/instructions/session.md"; then echo "cannot run with this" >&2; exit 7; fi`,
    )
    await idle()
    agent.say({
      type: "opencode-config",
      config: { instructions: ["something lethal"], isOrchestrator: true },
    })
    await agent.until(() => replies().length === 2, "a reply")
    expect(replies()[1]).toMatchObject({ success: false, restarted: false })
    expect(replies()[1]?.error).toContain("exited with code 7 before it was ready")
    expect(replies()[1]?.error).toContain("cannot run with this")
    await prompt("after")
    expect(processesOf({ sandbox }).map(({ pid }) => pid)).toEqual([agentPid({ sandbox })])
    // The next change is merged into the former configuration, not into the refused one.
    agent.say({ type: "opencode-config", config: { tools: { webfetch: false } } })
    await agent.until(() => replies().length === 3, "a reply")
    expect(replies()[2]).toMatchObject({ success: true, restarted: false })
  })

  test("a configuration that OpenCode rejects is reported as rejected, not as a crash", async () => {
    agent = stage.put(startTestSessionAgent({ config: scriptedConfig(stage.model()) }))
    sandbox = await createSandbox(agent)
    const source = join(sandbox.root, "image-config")
    await mkdir(source)
    await Bun.write(join(source, "opencode.json"), '{"share": 7}')
    runner = stage.put(
      await startRunner(agent, { OPENCODE_CONFIG_SOURCE: source }, { in: sandbox }),
    )
    await agent.until(() => replies().length === 1, "a reply")
    expect(replies()[0]?.error).toContain("OpenCode rejects its configuration")
    expect(replies()[0]?.error).toContain("share")
    await agent.frame("agentStatus", ({ status }) => status === "error")
    expect(processesOf({ sandbox })).toEqual([])
  })
})

test("a flood of log lines uses little memory and leaves a bounded file", async () => {
  const started = await start(`(head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 199) &`)
  const before = process.memoryUsage().rss
  await idle()
  await prompt("through")
  const file = join(sandbox.stateDir, "session/opencode.log")
  await agent.until(() => Bun.file(file).size < 17 * 1024 * 1024, "the file is truncated")
  expect(process.memoryUsage().rss - before).toBeLessThan(80 * 1024 * 1024)
  expect(started.log.some((line) => line.includes("agent.log-skipped"))).toBe(true)
})
