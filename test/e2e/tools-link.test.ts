/** Tools over a link that is cut, in a sandbox that lacks programs, and aborted while they run. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
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

beforeAll(async () => {
  model = await startScriptedModel()
  agent = startTestSessionAgent({
    config: { ...scriptedConfig(model), tools: { webfetch: false, list_personas: false } },
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
  model.on("cut", [tool("create_pull_request", { branch: "fix", title: "Fix it" }), text("Done.")])
  agent.say({ type: "prompt", messageId: "cut", content: "@@cut@@" })
  const end = await endOf("cut", "create_pull_request")
  expect(end.result).toContain("Pull request #7")
  expect(agent.connections()).toBe(before + 1)
  const asked = agent.frames.filter((frame) => frame.type === "create-pr")
  expect(new Set(asked.map(({ requestId }) => requestId)).size).toBe(1)
  expect(carriedOut.size).toBe(1)
  expect(agent.frames.filter((frame) => frame.type === "pr-created")).toHaveLength(1)
  await agent.frame("complete", (frame) => frame.messageId === "cut")
})

test("a tool that the session agent turns off is not offered to the model", () => {
  const offered = model.requests.at(-1)?.tools.map(({ function: { name } }) => name) ?? []
  expect(offered).toContain("bash")
  expect(offered).not.toContain("webfetch")
  expect(offered).not.toContain("list_personas")
})

describe("tools in a sandbox without their requirements", () => {
  test("web research tools are not offered to the model without a key, though OpenCode has loaded them", async () => {
    const offered = model.requests.at(-1)?.tools.map(({ function: { name } }) => name) ?? []
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
    agent.say({ type: "prompt", messageId: "lacking", content: "@@lacking@@" })
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
  agent.say({ type: "prompt", messageId: "stopped", content: "@@stopped@@" })
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
  const from = agent.frames.length
  agent.say({ type: "opencode-config", config: { isOrchestrator: true } })
  await agent.frame("opencode-config-applied", ({ success }) => success, from)
  await agent.frame("agentStatus", ({ status }) => status === "idle", from)
  const left = new Set(await listed())
  expect(ours.filter((name) => !left.has(name)).toSorted()).toEqual([
    "complete_session",
    "notify_parent",
  ])
})
