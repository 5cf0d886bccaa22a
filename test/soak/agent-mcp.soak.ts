/** MCP servers from the session agent's configuration: their tools work, and they start and end with it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import type { Inbound } from "../../src/wire/frames/index.ts"
import { type Conversation, leaveEmpty, startConversation } from "../kit/conversation.ts"
import { startHttpMcp } from "../kit/mcp-server.ts"
import { reply, text, tool } from "../kit/model.ts"
import { processesOf } from "../kit/processes.ts"
import { repositoryRoot } from "../kit/runner.ts"

const KEY = "the key of the remote server"
const program = join(repositoryRoot, "test/kit/mcp-server.ts")
const remote = startHttpMcp(KEY)
let c: Conversation

type McpServers = NonNullable<Inbound<"opencode-config">["config"]["mcpServers"]>

const near = {
  type: "local" as const,
  command: [process.execPath, program],
  environment: { VOICE: "near" },
}
const far = { type: "remote" as const, url: remote.url, headers: { "x-key": KEY } }

beforeAll(async () => {
  const agentConfig = { mcpServers: { near, far } }
  c = await startConversation({}, { agentConfig, furnish: leaveEmpty })
})
afterAll(async () => {
  await c.stop()
  await remote.stop()
})

const replies = () => c.agent.frames.filter((frame) => frame.type === "opencode-config-applied")

const configure = async (mcpServers: McpServers) => {
  const before = replies().length
  c.agent.say({ type: "opencode-config", config: { mcpServers } })
  await c.agent.until(() => replies().length > before, "a reply to the configuration")
  return replies().at(-1)
}

/** The local servers that run as descendants of OpenCode. */
const runningServers = () =>
  processesOf(c.runner).filter(({ command }) => command.includes(program))

const finalText = async (messageId: string) => {
  const frame = await c.agent.frame("message.finalize", (found) => found.messageId === messageId)
  return frame.finalText
}

const callTool = async (messageId: string, name: string) => {
  c.model.on(messageId, [reply(tool(name, { words: messageId })), text("done")])
  c.agent.say({ type: "prompt", messageId, content: `@@${messageId}@@` })
  expect(await finalText(messageId)).toBe("done")
  const updates = c.agent.frames.filter(
    (frame) => frame.type === "message.part.tool-update" && frame.messageId === messageId,
  )
  return updates.at(-1)
}

test("the agent can call the tools of a local and of a remote MCP server", async () => {
  expect(await callTool("hello-near", "near_say")).toMatchObject({
    status: "completed",
    result: "near heard: hello-near",
  })
  expect(await callTool("hello-far", "far_say")).toMatchObject({
    status: "completed",
    result: "remote heard: hello-far",
  })
  expect(runningServers()).toHaveLength(1)
})

test("MCP servers that do not start, do not respond or refuse do not affect the other servers and the turn", async () => {
  const applied = await configure({
    near,
    absent: { type: "local", command: ["/nowhere/mcp-server"] },
    silent: { type: "local", command: [process.execPath, program, "silent"] },
    closed: { type: "remote", url: remote.url },
  })
  expect(applied).toMatchObject({ success: true, restarted: false })
  const { error = "" } = applied ?? {}
  expect(error).toStartWith("MCP servers do not start: ")
  for (const name of ["absent", "silent", "closed"]) expect(error).toContain(`${name} (`)
  expect(error).not.toContain("near (")
  expect(await callTool("beside", "near_say")).toMatchObject({
    status: "completed",
    result: "near heard: beside",
  })
})

test("an invalid MCP server is refused by name, and the former servers stay", async () => {
  expect(await configure({ bad: { type: "remote", url: "file:///x" } })).toMatchObject({
    success: false,
    error: "configuration refused: MCP server bad: url must be an http or https URL",
  })
  expect(await callTool("still", "near_say")).toMatchObject({ status: "completed" })
})

test("a removed MCP server is ended and its tools are unavailable", async () => {
  expect(await configure({})).toMatchObject({ success: true })
  await c.agent.until(() => runningServers().length === 0, "the servers are ended")
  const gone = await callTool("removed", "near_say")
  expect(gone).toMatchObject({ toolName: "invalid" })
  expect(gone).toHaveProperty("result", expect.stringContaining("unavailable tool 'near_say'"))
})

test("the key of an MCP server is in no log line", () => {
  expect(c.runner.log.join("\n")).not.toContain(KEY)
})
