/** New configurations while the agent runs: which ones wait for turns, restart OpenCode or are refused, and the replies. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { startBusyTurn, startHeldTurn } from "../kit/busy-turn.ts"
import { type Conversation, leaveEmpty, startConversation } from "../kit/conversation.ts"
import { reply, startScriptedModel, text, tool } from "../kit/model.ts"
import { agentPid } from "../kit/processes.ts"
import { scriptedConfig } from "../kit/runner.ts"
import { untilTrue } from "../kit/until-true.ts"
import type { Inbound } from "../../src/wire/frames/index.ts"

let c: Conversation

beforeAll(async () => {
  c = await startConversation({ CONFIG_DRAIN_SECONDS: "15" }, { furnish: leaveEmpty })
})
afterAll(() => c.stop())

type AgentConfig = Inbound<"opencode-config">["config"]

const replies = () => c.agent.frames.filter((frame) => frame.type === "opencode-config-applied")

/** Sends a configuration and waits for its reply. */
const configure = async (config: AgentConfig) => {
  const before = replies().length
  c.agent.say({ type: "opencode-config", config })
  await c.agent.until(() => replies().length > before, "a reply to the configuration")
  return replies().at(-1)
}

const idleFor = (messageId: string) =>
  c.agent.frame("agentStatus", (frame) => frame.status === "idle" && frame.messageId === messageId)

const finalize = (messageId: string) =>
  c.agent.frames.find((frame) => frame.type === "message.finalize" && frame.messageId === messageId)

const heldTurn = (messageId: string) => startHeldTurn(c, messageId, c.runner.sandbox)

describe("the first configuration", () => {
  test("the first configuration gets one reply, without a restart", () => {
    expect(replies()).toHaveLength(1)
    expect(replies()[0]).toMatchObject({ success: true, restarted: false })
  })

  test("the first configuration announces only the models of the session agent", () => {
    const announced = c.agent.frames.find((frame) => frame.type === "models")
    expect(
      announced?.type === "models" && announced.models.map(({ provider }) => provider),
    ).toEqual(["scripted"])
  })

  test("the warm-up after the first configuration calls no model", async () => {
    await c.agent.until(
      () => c.runner.log.some((line) => line.includes('"agent.warmed-up"')),
      "the warm-up",
    )
    expect(c.model.requests).toEqual([])
    expect(c.model.titleRequests).toEqual([])
  })

  test("the first configuration leaves the workspace empty and the keys unreadable to other users", async () => {
    const listing = await Array.fromAsync(
      new Bun.Glob("**/*").scan({ cwd: c.runner.sandbox.workDir, dot: true }),
    )
    expect(listing).toEqual([])
    const auth = join(c.runner.sandbox.stateDir, "session/opencode/xdg/data/opencode/auth.json")
    expect((await Bun.file(auth).stat()).mode & 0o777).toBe(0o600)
    expect(await Bun.file(auth).text()).toContain('"scripted"')
    expect(await Bun.file(auth).text()).not.toContain(c.model.apiKey)
  })
})

describe("a prompt right after a configuration", () => {
  const promptAfter = async (name: string, ...configs: readonly AgentConfig[]) => {
    c.model.on(name, [text("yes")])
    for (const config of configs) c.agent.say({ type: "opencode-config", config })
    c.agent.say({ type: "prompt", messageId: name, content: `@@${name}@@` })
    await idleFor(name)
    return JSON.stringify(c.model.requests.at(-1)?.messages)
  }

  test("a prompt right after new instructions runs with them", async () => {
    const words = "Answer like a curlew."
    expect(await promptAfter("curlew", { instructions: [words] })).toContain(words)
  })

  test("a prompt right after a second configuration that comes during the restart for the first runs with both", async () => {
    const pid = agentPid(c.runner)
    const words = "Answer like a godwit."
    const launches = () => c.runner.log.filter((line) => line.includes('"to":"launching"')).length
    const before = launches()
    c.agent.say({ type: "opencode-config", config: { isOrchestrator: true } })
    await untilTrue(() => launches() > before, "the restart")
    expect(await promptAfter("godwit", { instructions: [words] })).toContain(words)
    expect(agentPid(c.runner)).not.toBe(pid)
    await configure({ isOrchestrator: false, instructions: [] })
  })
})

describe("a configuration during a turn", () => {
  test("an equal configuration during a turn leaves the process and the turn unchanged", async () => {
    const pid = agentPid(c.runner)
    const release = await heldTurn("same")
    expect(await configure(scriptedConfig(c.model))).toMatchObject({
      success: true,
      restarted: false,
    })
    expect(finalize("same")).toBeUndefined()
    await release()
    await idleFor("same")
    expect(finalize("same")).toMatchObject({ reason: "end_turn", finalText: "same is done" })
    expect(agentPid(c.runner)).toBe(pid)
  })

  test("new instructions during a turn wait for its end and are applied without a restart", async () => {
    const pid = agentPid(c.runner)
    const release = await heldTurn("soft")
    const replied = configure({ instructions: ["Always end with the word plover."] })
    await release()
    await idleFor("soft")
    expect(finalize("soft")).toMatchObject({ reason: "end_turn", finalText: "soft is done" })
    expect(await replied).toMatchObject({ success: true, restarted: false })
    expect(agentPid(c.runner)).toBe(pid)
    c.model.on("instructed", [text("yes")])
    c.agent.say({ type: "prompt", messageId: "instructed", content: "@@instructed@@" })
    await idleFor("instructed")
    expect(JSON.stringify(c.model.requests.at(-1)?.messages)).toContain("end with the word plover")
  })

  test("a configuration that needs a new process waits for the turn, restarts and gets one reply", async () => {
    const pid = agentPid(c.runner)
    const before = replies().length
    const release = await heldTurn("hard")
    const replied = configure({ isOrchestrator: true })
    await release()
    await idleFor("hard")
    expect(finalize("hard")).toMatchObject({ reason: "end_turn", finalText: "hard is done" })
    expect(await replied).toMatchObject({ success: true, restarted: true })
    expect(replies()).toHaveLength(before + 1)
    expect(agentPid(c.runner)).not.toBe(pid)
  })

  test("a configuration that needs a new process waits only for the running turn, and the queued prompt runs after the restart", async () => {
    const pid = agentPid(c.runner)
    const release = await heldTurn("ahead")
    c.model.on("behind", [
      reply(tool("bash", { command: "echo slept", description: "works" })),
      text("behind is done"),
    ])
    c.agent.say({ type: "prompt", messageId: "behind", content: "@@behind@@" })
    const replied = configure({ isOrchestrator: false })
    await release()
    await idleFor("behind")
    expect(await replied).toMatchObject({ success: true, restarted: true })
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

  test("a configuration that waits too long ends the turn with that reason", async () => {
    await startBusyTurn(c, "endless", 300)
    expect(await configure({ isOrchestrator: true })).toMatchObject({ success: true })
    expect(
      JSON.stringify(c.agent.frames.filter((f) => "messageId" in f && f.messageId === "endless")),
    ).toContain("a new configuration could wait no longer")
  })
})

describe("twenty configurations in a burst", () => {
  test("twenty configurations in a burst cause one restart with the last one and twenty replies", async () => {
    const before = replies().length
    const starts = () => c.runner.log.filter((line) => line.includes("agent.healthy")).length
    const startedBefore = starts()
    for (let count = 1; count <= 20; count += 1) {
      const instructions = [`Burst number ${count}.`]
      c.agent.say({ type: "opencode-config", config: { instructions, isOrchestrator: false } })
    }
    await c.agent.until(() => replies().length === before + 20, "twenty replies")
    expect(
      replies()
        .slice(before)
        .every(({ success, restarted }) => success && restarted),
    ).toBe(true)
    expect(starts()).toBe(startedBefore + 1)
    const file = join(c.runner.sandbox.stateDir, "session/opencode/config/instructions/session.md")
    expect(await Bun.file(file).text()).toBe("Burst number 20.\n")
  })
})

describe("an invalid configuration", () => {
  test("an invalid configuration is refused with all its problems, and the running one stays", async () => {
    const pid = agentPid(c.runner)
    const refused = await configure({
      instructions: ["This must not come into force."],
      customProviders: [
        { providerId: "a b", displayName: "x", baseUrl: "ftp://x", models: [{ id: "m" }] },
        { providerId: "none", displayName: "x", baseUrl: "http://x", models: [] },
      ],
    })
    expect(refused).toMatchObject({ success: false, restarted: false })
    const error = refused?.error ?? ""
    for (const problem of ["a b", "http or https", "x cannot be reached"])
      expect(error).toContain(problem)
    expect(agentPid(c.runner)).toBe(pid)
    expect(await configure({ tools: { webfetch: false } })).toMatchObject({ success: true })
    const file = join(c.runner.sandbox.stateDir, "session/opencode/config/instructions/session.md")
    expect(await Bun.file(file).text()).toBe("Burst number 20.\n")
  })
})

describe("a new provider", () => {
  test("a new provider is used without a restart, and its key is in no frame", async () => {
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
