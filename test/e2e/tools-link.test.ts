/**
 * Tools over a link that is cut, in a sandbox that lacks programs, and aborted while they run. The tests share one runner, OpenCode,
 * model and session agent; each has its own script, channel and ids, and the configuration is the same after each.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { z } from "zod"
import { tools as ourTools } from "../../tools/index.ts"
import { sampleAnswer } from "../kit/answers.ts"
import { type ScriptedModel, startScriptedModel, text, tool, tools } from "../kit/model.ts"
import { scriptedConfig, startRunner, type TestRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"

const PASSWORD = "password-of-opencode-in-this-test"

let model: ScriptedModel
let agent: TestSessionAgent
let runner: TestRunner

/** Result by request id: a repeated request gets the first result, as the protocol requires. */
const carriedOut = new Map<string, Readonly<Record<string, unknown>> | undefined>()
let cutNext = false

const config = () => ({
  ...scriptedConfig(model),
  tools: { webfetch: false, list_personas: false },
})

beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({
    config: config(),
    answer: (request) => {
      if (!carriedOut.has(request.requestId))
        carriedOut.set(request.requestId, sampleAnswer(request))
      if (!cutNext) return carriedOut.get(request.requestId)
      cutNext = false
      agent.close(1012, "restarting")
      return undefined
    },
  })
  runner = await startRunner(agent, { OPENCODE_SERVER_PASSWORD: PASSWORD })
  await agent.frame("agentStatus", ({ status }) => status === "idle")
})

afterEach(() => agent.settle())

afterAll(async () => {
  await runner.stop()
  await agent.stop()
  await model.stop()
})

const toolIds = async (): Promise<readonly string[]> => {
  const authorization = `Basic ${btoa(`opencode:${PASSWORD}`)}`
  const url = `${runner.gatewayUrl}/opencode/experimental/tool/ids`
  const response = await fetch(url, { headers: { authorization } })
  return z.array(z.string()).parse(await response.json())
}

const say = (name: string): void =>
  agent.say({
    type: "prompt",
    messageId: name,
    content: `@@${name}@@`,
    channelType: "test",
    channelId: name,
  })

/** The names of the tools that the model is offered with a prompt of this name. */
const offeredTo = async (name: string): Promise<readonly string[]> => {
  model.on(name, [text("Seen.")])
  say(name)
  await agent.frame("complete", (frame) => frame.messageId === name)
  return model.requests.at(-1)?.tools.map(({ function: made }) => made.name) ?? []
}

const endOf = (messageId: string, toolName: string) =>
  agent.frame(
    "message.part.tool-update",
    (frame) =>
      frame.messageId === messageId &&
      frame.toolName === toolName &&
      (frame.status === "completed" || frame.status === "error"),
  )

test("a request is carried out once when the link is cut before its response", async () => {
  cutNext = true
  const before = agent.connections()
  const known = carriedOut.size
  const from = agent.frames.length
  model.on("cut", [tool("create_pull_request", { branch: "fix", title: "Fix it" }), text("Done.")])
  say("cut")
  const end = await endOf("cut", "create_pull_request")
  expect(end.result).toContain("Pull request #7")
  expect(agent.connections()).toBe(before + 1)
  const since = agent.frames.slice(from)
  const asked = since.filter((frame) => frame.type === "create-pr")
  expect(new Set(asked.map(({ requestId }) => requestId)).size).toBe(1)
  expect(carriedOut.size - known).toBe(1)
  expect(since.filter((frame) => frame.type === "pr-created")).toHaveLength(1)
  await agent.frame("complete", (frame) => frame.messageId === "cut")
})

test("a tool that the session agent turns off is not offered to the model", async () => {
  const offered = await offeredTo("turned-off")
  expect(offered).toContain("bash")
  expect(offered).not.toContain("webfetch")
  expect(offered).not.toContain("list_personas")
})

describe("tools in a sandbox without their requirements", () => {
  test("web research tools are not offered to the model without a key, though OpenCode has loaded them", async () => {
    const offered = await offeredTo("without-key")
    expect(offered).toContain("create_pull_request")
    expect(offered.filter((name) => name.startsWith("parallel_"))).toEqual([])
    expect(await toolIds()).toContain("parallel_web_search")
  })

  test("tools whose program or setting is missing fail with an error that explains what is missing", async () => {
    model.on("lacking", [
      tools([
        { name: "secret_list", args: {} },
        { name: "browser_screenshot", args: {} },
        { name: "notify_parent", args: { message: "Hello" } },
        { name: "write_tunnel_env", args: {} },
      ]),
      text("Well."),
    ])
    say("lacking")
    const errorOf = async (name: string) => (await endOf("lacking", name)).error
    expect(await errorOf("secret_list")).toContain(
      "this sandbox has no secrets. This sandbox is not configured for it; continue without it or tell the user.",
    )
    expect(await errorOf("browser_screenshot")).toContain("agent-browser is not installed")
    expect(await errorOf("notify_parent")).toContain("This session has no parent session")
    expect(await errorOf("write_tunnel_env")).toContain("Call register_tunnel first")
    await agent.frame("complete", (frame) => frame.messageId === "lacking")
  })
})

test("a sleep tool call is reported as running and stops when the turn is aborted", async () => {
  model.on("stopped", [tool("sleep", { seconds: 600, reason: "Nothing" }), text("Never said.")])
  say("stopped")
  await agent.frame(
    "message.part.tool-update",
    (frame) => frame.messageId === "stopped" && frame.status === "running",
  )
  agent.say({ type: "abort" })
  // Far before the ten minutes are over: no wait of a test is as long.
  const final = await agent.frame("message.finalize", (frame) => frame.messageId === "stopped")
  expect((await endOf("stopped", "sleep")).status).toBe("error")
  expect(final.reason).toBe("canceled")
})

test("an orchestrator has all tools except complete_session and notify_parent", async () => {
  const ours = Object.keys(ourTools)
  const listed = async () => (await toolIds()).filter((name) => ours.includes(name))
  expect(await listed()).toHaveLength(70)
  const apply = async (more: { readonly isOrchestrator: boolean }) => {
    const from = agent.frames.length
    agent.say({ type: "opencode-config", config: { ...config(), ...more } })
    await agent.frame("opencode-config-applied", ({ success }) => success, from)
    await agent.frame("agentStatus", ({ status }) => status === "idle", from)
  }
  try {
    await apply({ isOrchestrator: true })
    const left = new Set(await listed())
    expect(ours.filter((name) => !left.has(name)).toSorted()).toEqual([
      "complete_session",
      "notify_parent",
    ])
  } finally {
    await apply({ isOrchestrator: false })
  }
})
