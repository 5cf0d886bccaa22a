/**
 * What a client of the hub sees of the real runner: across cuts of the link, and of prompts that steer. All tests share hub, runner,
 * OpenCode, model, client and workspace; each has its own channel, and the workspace is as at the start after each.
 */
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { execa } from "execa"
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { type HubConversation, startHubConversation } from "../kit/hub-conversation.ts"
import { httpError, reply, text, tool, waitFor } from "../kit/model.ts"
import { untilPromptIsStored } from "../kit/stored-prompt.ts"

const PASSWORD = "password-of-opencode-in-this-test"
let c: HubConversation
beforeAll(async () => {
  c = await startHubConversation({ OPENCODE_SERVER_PASSWORD: PASSWORD })
  await c.client.until(isAgentReady, "OpenCode")
})
afterEach(async () => {
  await c.client.ask({ type: "abort", queued: true })
  await c.client.until(() => c.client.queue().length === 0, "end of all turns")
  await execa("git", ["clean", "-fdq"], { cwd: c.sandbox.workDir })
  const isClean = () => files().length === 0 && [undefined, 0].includes(dirtyCount())
  await c.client.until(isClean, "clean workspace")
})
afterAll(() => c.stop())

const field = (state: string, name: string) =>
  (c.client.state(state) as Record<string, unknown> | undefined)?.[name]
const files = () => (c.client.state("files") ?? []) as readonly { path: string; status: string }[]
const dirtyCount = () => field("git", "dirtyCount") as number | undefined
const isRunnerThere = () => field("runner", "connected") === true
const isAgentReady = () => field("agent", "status") === "idle"
const isAtWork = (prompt: string) =>
  c.client.queue().some(({ id, status }) => id === prompt && status === "processing")

/** How often the client got the state that no runner is connected. */
const losses = () =>
  c.client.events.filter(
    ({ type, name, value }) =>
      type === "state" &&
      name === "runner" &&
      (value as { connected: boolean }).connected === false,
  ).length
/** Cuts the link; resolves when the runner is back. */
const cut = async () => {
  const before = losses()
  c.proxy.reset()
  await c.client.until(() => losses() > before, "the end of the connection")
  await c.client.until(isRunnerThere, "the runner after the cut")
}
/** The waits of the runner before it dialed again, in ms. */
const waits = () =>
  c.runner.log.flatMap((line) => /"retryInMs":(\d+)/.exec(line)?.[1] ?? []).map(Number)

describe("a link that is cut", () => {
  test("after each of ten cuts in a row the runner dials within 250 ms and is back", async () => {
    const before = waits().length
    for (let index = 0; index < 10; index += 1) await cut()
    const own = waits().slice(before)
    expect(own).toHaveLength(10)
    expect(Math.max(...own)).toBeLessThanOrEqual(250)
  })

  test("a prompt on one channel does not wait for the turn of another channel after a cut", async () => {
    const held = Promise.withResolvers<void>()
    c.model.on("quick", [text("At once."), text("At once.")])
    c.model.on("long", [reply(text("first words, "), waitFor(held.promise), text("last words"))])
    const long = await c.say("@@long@@", "a")
    await c.client.until(() => c.client.answerTo(long) !== "", "text on channel a")
    expect(await c.ended(await c.say("@@quick@@", "b"))).toBe("At once.")
    await cut()
    expect(await c.ended(await c.say("@@quick@@", "b"))).toBe("At once.")
    expect(isAtWork(long)).toBe(true)
    held.resolve()
    expect(await c.ended(long)).toBe("first words, last words")
  })
})

describe("files that the agent shows", () => {
  const shown = () =>
    c.client.events.flatMap(({ type, artifact }) =>
      type === "artifact"
        ? [artifact as { id: string; description: string; messageId?: string }]
        : [],
    )
  const contentOf = async (id: string) => {
    const url = `${c.hub.url}/sessions/test-session/artifacts/${id}`
    const response = await fetch(url, { headers: { authorization: `Bearer ${CLIENT_TOKEN}` } })
    return response.text()
  }
  const run = async (name: string, command: string) => {
    c.model.on(name, [tool("bash", { command, description: name }), text("Done.")])
    const prompt = await c.say(`@@${name}@@`, "display")
    await c.ended(prompt)
    return prompt
  }

  test("a file in output/display appears once, an unchanged one not again, and a changed one again", async () => {
    const prompt = await run("show", "mkdir -p output/display; echo one > output/display/a.txt")
    await c.client.until(() => shown().length === 1, "the file")
    const answer = c.client
      .messages()
      .find(({ role, promptId }) => role === "assistant" && promptId === prompt)
    expect(shown()[0]).toMatchObject({ description: "a.txt", messageId: answer?.id ?? "none" })
    expect(await contentOf(shown()[0]?.id ?? "")).toBe("one\n")
    await run("same", "touch output/display/a.txt; echo two > output/display/b.txt")
    await c.client.until(() => shown().length === 2, "the second file")
    await run("change", "echo three > output/display/a.txt")
    await c.client.until(() => shown().length === 3, "the changed file")
    expect(shown().map(({ description }) => description)).toEqual(["a.txt", "b.txt", "a.txt"])
    expect(await contentOf(shown()[2]?.id ?? "")).toBe("three\n")
  })
})

describe("a tool of the agent", () => {
  const toolOf = (prompt: string, name: string) =>
    c.client
      .messages()
      .flatMap(({ promptId, parts }) => (promptId === prompt ? parts : []))
      .findLast((part) => (part.data as { toolName?: string } | undefined)?.toolName === name)

  test("the output of a running command reaches clients while it runs, then its exit code and times", async () => {
    const gate = join(c.sandbox.workDir, ".git/second-line")
    const slow = tool("bash", {
      command: `echo first; until [ -e ${gate} ]; do sleep 0.05; done; echo second; exit 3`,
      description: "count",
    })
    c.model.on("output", [reply(slow), text("Counted.")])
    const prompt = await c.say("@@output@@", "tools")
    const hasFirstLine = () => toolOf(prompt, "bash")?.text === "first\n"
    await c.client.until(hasFirstLine, "the first line")
    expect(toolOf(prompt, "bash")?.data).toMatchObject({
      status: "running",
      startedAt: expect.any(Number),
    })
    const seenAt = Date.now()
    await Bun.write(gate, "")
    expect(await c.ended(prompt)).toBe("Counted.")
    const ended = toolOf(prompt, "bash")
    expect(ended?.text).toBeUndefined()
    expect(ended?.data).toMatchObject({ status: "completed", exit: 3 })
    const times = ended?.data as { startedAt: number; endedAt: number } | undefined
    expect(times?.startedAt).toBeLessThanOrEqual(seenAt)
    expect(times?.endedAt).toBeGreaterThanOrEqual(seenAt)
  })

  test("an edit has its diff and the number of lines that it changed", async () => {
    await Bun.write(join(c.sandbox.workDir, "tools.txt"), "one\ntwo\nthree\n")
    const filePath = join(c.sandbox.workDir, "tools.txt")
    c.model.on("edit", [
      reply(tool("read", { filePath })),
      reply(tool("edit", { filePath, oldString: "two", newString: "2" })),
      text("Edited."),
    ])
    const prompt = await c.say("@@edit@@", "tools")
    expect(await c.ended(prompt)).toBe("Edited.")
    const data = toolOf(prompt, "edit")?.data as { diff: string; files: object[] }
    expect(data.diff).toContain("-two\n+2\n")
    expect(data.files).toMatchObject([{ added: 1, removed: 1 }])
  })
})

describe("a prompt of a client", () => {
  test("a prompt with steer joins the running turn and its answer begins before that turn's work is over", async () => {
    const gate = join(c.sandbox.workDir, ".git/both-at-work")
    const command = `until [ -e ${gate} ]; do sleep 0.05; done; echo done`
    const slow = tool("bash", { command, description: "wait" })
    c.model.on("course", [reply(text("Working. "), slow), text("Old course.")])
    c.model.on("steering", [text("Changed course.")])
    const first = await c.say("@@course@@", "steer")
    const hasTool = () =>
      c.client
        .messages()
        .some(
          ({ promptId, parts }) => promptId === first && parts.some(({ kind }) => kind === "tool"),
        )
    await c.client.until(hasTool, "the tool call of the first turn")
    const second = await c.say("now @@steering@@", "steer", { steer: true })
    await c.client.until(() => isAtWork(first) && isAtWork(second), "both prompts at work")
    // The hub counts a prompt as at work when it sends it. The first turn may go on when OpenCode has it.
    await untilPromptIsStored(c.runner, PASSWORD, "now @@steering@@")
    await Bun.write(gate, "")
    expect(await c.ended(first)).toBe("Working. ")
    expect(await c.ended(second)).toBe("Changed course.")
    expect(isAtWork(first) || isAtWork(second)).toBe(false)
  })

  test("a question that allows several choices says so, and the model receives all of them", async () => {
    const questions = [
      {
        question: "Which ones?",
        header: "W",
        options: ["A", "B", "C"].map((label) => ({ label, description: label })),
        multiple: true,
      },
    ]
    c.model.on("several", [tool("question", { questions }), text("thanks")])
    const asking = await c.say("@@several@@", "q")
    const asked = () =>
      c.client.events
        .filter(({ type }) => type === "interaction")
        .map(({ interaction }) => interaction as Record<string, unknown>)
        .find(({ promptId }) => promptId === asking)
    await c.client.until(() => asked() !== undefined, "the question")
    expect(asked()).toMatchObject({
      text: "Which ones?",
      options: ["A", "B", "C"].map((label) => ({ label, description: label })),
      multiple: true,
    })
    await c.client.ask({ type: "answer", id: asked()?.["id"], answer: "A, C" })
    expect(await c.ended(asking)).toBe("thanks")
    const heard = c.model.requests
      .map(({ messages }) => JSON.stringify(messages))
      .filter((one) => one.includes("@@several@@"))
    expect(heard.at(-1)).toContain("A, C")
  })
})

describe("the workspace", () => {
  const path = (file: string) => join(c.sandbox.workDir, file)
  const shows = (file: string) => files().some((one) => one.path === file)
  const diff = async () => {
    const { requestId } = await c.client.ask({ type: "diff" })
    const answer = () =>
      c.client.events.find(
        (event) =>
          event["type"] === "answer" && event["requestId"] === requestId && event["result"],
      )
    await c.client.until(() => answer() !== undefined, "the diff")
    const result = answer()?.["result"] as
      | { files: readonly { path: string; status: string; diff: string }[] }
      | undefined
    return result?.files ?? []
  }

  test("a file that another program changes is shown in the state of the session and in its diff", async () => {
    await Bun.write(path("by-hand.txt"), "typed in an editor\n")
    await c.client.until(() => shows("by-hand.txt"), "the file in the state", 10_000)
    expect(files()).toContainEqual(
      expect.objectContaining({ path: "by-hand.txt", status: "added", additions: 1 }),
    )
    // The state of git follows the files in a frame of its own.
    await c.client.until(() => dirtyCount() === 1, "the file in the state of git", 5000)
    expect(c.client.state("git")).toMatchObject({ dirtyCount: 1, lastCommit: { subject: "first" } })
    const changed = (await diff()).find((file) => file.path === "by-hand.txt")
    expect(changed).toMatchObject({ status: "added" })
    expect(changed?.diff).toContain("+typed in an editor")
    await rm(path("by-hand.txt"))
    await c.client.until(() => !shows("by-hand.txt"), "the end of the file in the state", 10_000)
  })

  test("a file of the agent that another program changes is shown with both changes", async () => {
    const write = tool("write", { filePath: path("shared.txt"), content: "by the agent\n" })
    c.model.on("shared", [write, text("written")])
    await c.ended(await c.say("@@shared@@", "files"))
    await Bun.write(path("shared.txt"), "by the agent\nby hand\n")
    await c.client.until(() => shows("shared.txt"), "the file in the state", 10_000)
    const changed = (await diff()).filter((file) => file.path === "shared.txt")
    expect(changed).toHaveLength(1)
    expect(changed[0]?.diff).toContain("+by the agent")
    expect(changed[0]?.diff).toContain("+by hand")
  })
})

test("a prompt whose model is refused goes on with the fallback of the config, and its answer names the model", async () => {
  const configure = (modelFallbacks: readonly string[]) =>
    c.client.ask({ type: "config", config: { modelFallbacks } })
  try {
    expect(await configure(["scripted/m2"])).toMatchObject({ ok: true })
    c.model.on("falls", [httpError(401, { message: "no" }), text("From the second model.")])
    const prompt = await c.say("@@falls@@", "falls")
    expect(await c.ended(prompt)).toContain("From the second model.")
    const models = c.client
      .messages()
      .filter(({ role, promptId }) => role === "assistant" && promptId === prompt)
      .map(({ model }) => String(model))
    expect(models.at(-1)).toContain("m2")
    expect(c.client.state("model")).toMatchObject({ fallbacks: ["scripted/m2"] })
  } finally {
    await configure([])
  }
})
