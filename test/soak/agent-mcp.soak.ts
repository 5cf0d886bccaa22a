/** MCP servers of the session agent's choice: their tools work, they start and end with the configuration. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import type { Inbound } from "../../src/protocol/index.ts"
import { startHttpMcp } from "../kit/mcp-server.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool } from "../kit/model.ts"
import { processesOf } from "../kit/processes.ts"
import { repositoryRoot, scriptedConfig, startRunner, type TestRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const KEY = "the key of the remote server"
const program = join(repositoryRoot, "test/kit/mcp-server.ts")
const remote = startHttpMcp(KEY)
let model: ScriptedModel
let agent: TestSessionAgent
let runner: TestRunner

type McpServers = NonNullable<Inbound<"opencode-config">["config"]["mcpServers"]>

const near = {
  type: "local" as const,
  command: [process.execPath, program],
  environment: { VOICE: "near" },
}
const far = { type: "remote" as const, url: remote.url, headers: { "x-key": KEY } }

beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({
    config: { ...scriptedConfig(model), mcpServers: { near, far } },
  })
  runner = await startRunner(agent)
  await agent.frame("agentStatus", ({ status }) => status === "idle")
})

afterAll(async () => {
  await runner.stop()
  await agent.stop()
  await model.stop()
  await remote.stop()
})

const answers = () => agent.frames.filter((frame) => frame.type === "opencode-config-applied")

const configure = async (mcpServers: McpServers) => {
  const before = answers().length
  agent.say({ type: "opencode-config", config: { mcpServers } })
  await agent.until(() => answers().length > before, "an answer to the configuration")
  return answers().at(-1)
}

/** The servers that run as processes of OpenCode's. */
const serving = () => processesOf(runner).filter(({ command }) => command.includes(program))

const finalText = async (messageId: string) => {
  const frame = await agent.frame("message.finalize", (found) => found.messageId === messageId)
  return frame.finalText
}

const callTool = async (messageId: string, name: string) => {
  model.on(messageId, [reply(tool(name, { words: messageId })), text("done")])
  agent.say({ type: "prompt", messageId, content: `@@${messageId}@@` })
  expect(await finalText(messageId)).toBe("done")
  const updates = agent.frames.filter(
    (frame) => frame.type === "message.part.tool-update" && frame.messageId === messageId,
  )
  return updates.at(-1)
}

test("the tools of a local and of a remote server are the agent's", async () => {
  expect(await callTool("hello-near", "near_say")).toMatchObject({
    status: "completed",
    result: "near heard: hello-near",
  })
  expect(await callTool("hello-far", "far_say")).toMatchObject({
    status: "completed",
    result: "remote heard: hello-far",
  })
  expect(serving()).toHaveLength(1)
})

test("one that cannot be started, one that is silent and one that refuses leave the others and the turn alone", async () => {
  const applied = await configure({
    near,
    absent: { type: "local", command: ["/nowhere/mcp-server"] },
    silent: { type: "local", command: [process.execPath, program, "silent"] },
    closed: { type: "remote", url: remote.url },
  })
  expect(applied).toMatchObject({ success: true, restarted: false })
  expect(await callTool("beside", "near_say")).toMatchObject({
    status: "completed",
    result: "near heard: beside",
  })
})

test("a bad one is refused by its name, and those before stay", async () => {
  expect(await configure({ bad: { type: "remote", url: "file:///x" } })).toMatchObject({
    success: false,
    error: "configuration refused: MCP server bad: url must be an http or https URL",
  })
  expect(await callTool("still", "near_say")).toMatchObject({ status: "completed" })
})

test("one that is taken away is ended, its tools with it", async () => {
  expect(await configure({})).toMatchObject({ success: true })
  await agent.until(() => serving().length === 0, "the servers are ended")
  const gone = await callTool("nobody", "near_say")
  expect(gone).toMatchObject({ toolName: "invalid" })
  expect(gone).toHaveProperty("result", expect.stringContaining("unavailable tool 'near_say'"))
})

test("its key is in no log", () => {
  expect(runner.log.join("\n")).not.toContain(KEY)
})
