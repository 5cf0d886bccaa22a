/** New configurations while the agent runs: what touches a turn, what restarts, what is refused, who is answered. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { startBusyTurn } from "../kit/busy-turn.ts"
import { type Conversation, leaveEmpty, startConversation } from "../kit/conversation.ts"
import { reply, startScriptedModel, text, tool } from "../kit/model.ts"
import { agentPid } from "../kit/processes.ts"
import { scriptedConfig } from "../kit/runner.ts"
import type { Inbound } from "../../src/wire/frames/index.ts"

let c: Conversation

beforeAll(async () => {
  c = await startConversation({ CONFIG_DRAIN_SECONDS: "5" }, { furnish: leaveEmpty })
})
afterAll(() => c.stop())

type AgentConfig = Inbound<"opencode-config">["config"]

const answers = () => c.agent.frames.filter((frame) => frame.type === "opencode-config-applied")

/** Says a configuration and waits for its answer. */
const configure = async (config: AgentConfig) => {
  const before = answers().length
  c.agent.say({ type: "opencode-config", config })
  await c.agent.until(() => answers().length > before, "an answer to the configuration")
  return answers().at(-1)
}

const idleFor = (messageId: string) =>
  c.agent.frame("agentStatus", (frame) => frame.status === "idle" && frame.messageId === messageId)

const finalize = (messageId: string) =>
  c.agent.frames.find((frame) => frame.type === "message.finalize" && frame.messageId === messageId)

const busyTurn = (messageId: string, seconds: number) => startBusyTurn(c, messageId, seconds)

describe("the first configuration", () => {
  test("is answered once, as a start", () => {
    expect(answers()).toHaveLength(1)
    expect(answers()[0]).toMatchObject({ success: true, restarted: false })
  })

  test("tells the models of the session agent and no other", () => {
    const told = c.agent.frames.find((frame) => frame.type === "models")
    expect(told?.type === "models" && told.models.map(({ provider }) => provider)).toEqual([
      "scripted",
    ])
  })

  test("is followed by a warm-up that asks no model and leaves no session", async () => {
    await c.agent.until(
      () => c.runner.log.some((line) => line.includes('"agent.warm"')),
      "the warm-up",
    )
    expect(c.model.requests).toEqual([])
    expect(c.model.titleRequests).toEqual([])
  })

  test("leaves the workspace clean and the keys unreadable to others", async () => {
    const listing = await Array.fromAsync(
      new Bun.Glob("**/*").scan({ cwd: c.runner.sandbox.workDir, dot: true }),
    )
    expect(listing).toEqual([])
    const auth = join(c.runner.sandbox.stateDir, "opencode/xdg/data/opencode/auth.json")
    expect((await Bun.file(auth).stat()).mode & 0o777).toBe(0o600)
    expect(await Bun.file(auth).text()).toContain(c.model.apiKey)
  })
})

describe("a configuration while a turn runs", () => {
  test("that changes nothing leaves process and turn alone", async () => {
    const pid = agentPid(c.runner)
    await busyTurn("same", 2)
    expect(await configure(scriptedConfig(c.model))).toMatchObject({
      success: true,
      restarted: false,
    })
    expect(finalize("same")).toBeUndefined()
    await idleFor("same")
    expect(finalize("same")).toMatchObject({ reason: "end_turn", finalText: "same is done" })
    expect(agentPid(c.runner)).toBe(pid)
  })

  test("that the process can take waits for the turn and restarts nothing", async () => {
    const pid = agentPid(c.runner)
    await busyTurn("soft", 2)
    const answer = configure({ instructions: ["Always end with the word plover."] })
    await idleFor("soft")
    expect(finalize("soft")).toMatchObject({ reason: "end_turn", finalText: "soft is done" })
    expect(await answer).toMatchObject({ success: true, restarted: false })
    expect(agentPid(c.runner)).toBe(pid)
    c.model.on("told", [text("yes")])
    c.agent.say({ type: "prompt", messageId: "told", content: "@@told@@" })
    await idleFor("told")
    expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain("end with the word plover")
  })

  test("that needs a new process ends the turn first, then restarts, and is answered once", async () => {
    const pid = agentPid(c.runner)
    const before = answers().length
    await busyTurn("hard", 2)
    const answer = configure({ isOrchestrator: true })
    await idleFor("hard")
    expect(finalize("hard")).toMatchObject({ reason: "end_turn", finalText: "hard is done" })
    expect(await answer).toMatchObject({ success: true, restarted: true })
    expect(answers()).toHaveLength(before + 1)
    expect(agentPid(c.runner)).not.toBe(pid)
  })

  test("that needs a new process waits for that turn alone: what is queued behind it runs after", async () => {
    const pid = agentPid(c.runner)
    await busyTurn("ahead", 3)
    c.model.on("behind", [
      reply(tool("bash", { command: "sleep 3; echo slept", description: "works" })),
      text("behind is done"),
    ])
    c.agent.say({ type: "prompt", messageId: "behind", content: "@@behind@@" })
    const answer = configure({ isOrchestrator: false })
    await idleFor("behind")
    expect(await answer).toMatchObject({ success: true, restarted: true })
    expect(finalize("ahead")).toMatchObject({ reason: "end_turn", finalText: "ahead is done" })
    expect(finalize("behind")).toMatchObject({ reason: "end_turn", finalText: "behind is done" })
    const order = c.agent.frames.map((frame) =>
      frame.type === "message.finalize" ? frame.messageId : frame.type,
    )
    const places = ["ahead", "opencode-config-applied", "behind"].map((name) =>
      order.lastIndexOf(name),
    )
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(agentPid(c.runner)).not.toBe(pid)
  })

  test("that waits too long ends the turn with that reason", async () => {
    await busyTurn("endless", 300)
    expect(await configure({ isOrchestrator: true })).toMatchObject({ success: true })
    expect(
      JSON.stringify(c.agent.frames.filter((f) => "messageId" in f && f.messageId === "endless")),
    ).toContain("a new configuration could wait no longer")
  })
})

describe("twenty configurations in a burst", () => {
  test("are one restart with the last, and each is answered", async () => {
    const before = answers().length
    const starts = () => c.runner.log.filter((line) => line.includes("agent.healthy")).length
    const startedBefore = starts()
    for (let count = 1; count <= 20; count += 1) {
      const instructions = [`Burst number ${count}.`]
      c.agent.say({ type: "opencode-config", config: { instructions, isOrchestrator: false } })
    }
    await c.agent.until(() => answers().length === before + 20, "twenty answers")
    expect(
      answers()
        .slice(before)
        .every(({ success, restarted }) => success && restarted),
    ).toBe(true)
    expect(starts()).toBe(startedBefore + 1)
    const file = join(c.runner.sandbox.stateDir, "opencode/config/instructions/session.md")
    expect(await Bun.file(file).text()).toBe("Burst number 20.\n")
  })
})

describe("a configuration that cannot be", () => {
  test("is refused whole with every problem, and the running one stays", async () => {
    const pid = agentPid(c.runner)
    const answer = await configure({
      instructions: ["This must not come into force."],
      customProviders: [
        { providerId: "a b", displayName: "x", baseUrl: "ftp://x", models: [{ id: "m" }] },
        { providerId: "none", displayName: "x", baseUrl: "http://x", models: [] },
      ],
    })
    expect(answer).toMatchObject({ success: false, restarted: false })
    const error = answer?.error ?? ""
    for (const part of ["a b", "http or https", "none has no model"]) expect(error).toContain(part)
    expect(agentPid(c.runner)).toBe(pid)
    expect(await configure({ tools: { webfetch: false } })).toMatchObject({ success: true })
    const file = join(c.runner.sandbox.stateDir, "opencode/config/instructions/session.md")
    expect(await Bun.file(file).text()).toBe("Burst number 20.\n")
  })
})

describe("another provider", () => {
  test("is used at once, without a restart, and its key is in no answer", async () => {
    const pid = agentPid(c.runner)
    const other = await startScriptedModel()
    other.on(() => true, [text("from the other one")])
    const [provider] = scriptedConfig(other).customProviders ?? []
    const from = c.agent.frames.length
    if (!provider) throw new Error("no provider")
    await configure({ customProviders: [{ ...provider, providerId: "other" }] })
    const { models } = await c.agent.frame("models", () => true, from)
    expect(models.map(({ provider: name }) => name)).toEqual(["other"])
    c.agent.say({ type: "prompt", messageId: "other", content: "hello", model: "other/m2" })
    await idleFor("other")
    expect(finalize("other")).toMatchObject({ finalText: "from the other one" })
    expect(agentPid(c.runner)).toBe(pid)
    expect(JSON.stringify(c.agent.frames)).not.toContain(other.apiKey)
    await other.stop()
  })
})
