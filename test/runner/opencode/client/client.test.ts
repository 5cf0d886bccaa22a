/** The calls of the OpenCode client, made to a real OpenCode. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import {
  AgentCallError,
  createAgentClient,
  type AgentClient,
} from "../../../../src/runner/opencode/client/client.ts"
import { createIdMint } from "../../../../src/runner/opencode/client/ids.ts"
import { reply, type ScriptedModel, startScriptedModel, text, tool } from "../../../kit/model.ts"
import { type OpenCode, startOpenCode } from "../../../kit/opencode.ts"
import { untilTrue } from "../../../kit/until-true.ts"

const mint = createIdMint(Date.now)
const model = { providerID: "scripted", modelID: "m1" }
let scripted: ScriptedModel
let opencode: OpenCode
let client: AgentClient

beforeAll(async () => {
  scripted = await startScriptedModel()
  opencode = await startOpenCode({
    ownModels: true,
    config: {
      ...scripted.config,
      enabled_providers: ["scripted", "groq"],
      permission: { "*": "allow", webfetch: "ask" },
      command: { greet: { template: "say hello to $ARGUMENTS", description: "greets" } },
    },
  })
  await Bun.$`git init -q && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m first`.cwd(
    opencode.directory,
  )
  client = createAgentClient(opencode)
})

afterAll(async () => {
  await opencode.stop()
  await scripted.stop()
})

/** Sends a prompt; resolves when the assistant has replied and the session is idle. */
const turn = async (agentSessionId: string, prompt: string): Promise<string> => {
  const messageID = mint("msg")
  await client.prompt(agentSessionId, {
    messageID,
    model,
    parts: [{ type: "text", id: mint("prt"), text: prompt }],
  })
  await eventually(async () => {
    const [statuses, messages] = await Promise.all([
      client.statuses(),
      client.messages(agentSessionId),
    ])
    const answers = messages.filter(({ message }) => message.role === "assistant")
    return !statuses.has(agentSessionId) && answers.at(-1)?.message.completed === true
  })
  return messageID
}

const eventually = (condition: () => Promise<boolean>) => untilTrue(condition, "true condition")

const failure = async (call: Promise<unknown>): Promise<AgentCallError> => {
  const error = await call.catch((caught: unknown) => caught)
  if (error instanceof AgentCallError) return error
  throw new Error(`not an AgentCallError: ${String(error)}`)
}

describe("an agent session", () => {
  test("an agent session is created with its title, found and deleted", async () => {
    const id = await client.createSession("the first title")
    expect(await client.sessionExists(id)).toBe(true)
    expect(await client.readSession(id)).toMatchObject({ id, title: "the first title" })
    await client.deleteSession(id)
    expect(await client.sessionExists(id)).toBe(false)
  })

  test("an agent session returns its messages and its diff, and reverts and restores a message", async () => {
    scripted.on("write", [
      reply(tool("bash", { command: "echo new > made.txt", description: "makes a file" })),
      text("written"),
    ])
    const id = await client.createSession()
    const messageId = await turn(id, "@@write@@")
    expect(await client.messages(id, 1)).toHaveLength(1)
    expect((await client.messages(id))[0]?.message).toMatchObject({ id: messageId, role: "user" })
    await eventually(async () => (await client.diff(id, messageId)).length === 1)
    expect(await client.diff(id, messageId)).toMatchObject([
      { file: "made.txt", status: "added", additions: 1 },
    ])
    expect(await client.revert(id, messageId)).toMatchObject({ revertedTo: messageId })
    expect(await Bun.file(join(opencode.directory, "made.txt")).exists()).toBe(false)
    await client.unrevert(id)
    expect(await Bun.file(join(opencode.directory, "made.txt")).text()).toBe("new\n")
  })

  test("a command and a compaction resolve when they have finished", async () => {
    scripted.enqueue(text("hello, all"), text("a summary"))
    const id = await client.createSession()
    const answer = await client.command(id, {
      command: "greet",
      arguments: "all",
      model: "scripted/m1",
    })
    expect(answer.parts.find((part) => part.kind === "text")).toMatchObject({ text: "hello, all" })
    await client.summarize(id, model)
    expect((await client.messages(id)).some(({ message }) => message.isSummary)).toBe(true)
    const unknown = await failure(client.command(id, { command: "no-such", arguments: "" }))
    expect(unknown.message).toContain("/command")
  })
})

describe("questions and permission requests", () => {
  test("questions and permission requests are listed and can be answered", async () => {
    scripted.on("asks", [
      reply(
        tool("question", {
          questions: [
            { question: "Which?", header: "W", options: [{ label: "Red", description: "r" }] },
          ],
        }),
      ),
      reply(tool("webfetch", { url: "http://127.0.0.1:1/", format: "text", timeout: 5 })),
      text("thanks"),
    ])
    const id = await client.createSession()
    const ended = turn(id, "@@asks@@")
    await eventually(async () => (await client.questions()).length > 0)
    const [question] = await client.questions()
    expect(question).toMatchObject({
      agentSessionId: id,
      questions: [{ text: "Which?", options: ["Red"] }],
    })
    await client.replyQuestion(question?.requestId ?? "", [["Red"]])
    await eventually(async () => (await client.permissions()).length > 0)
    const [permission] = await client.permissions()
    expect(permission).toMatchObject({ agentSessionId: id, title: "webfetch" })
    await client.replyPermission(permission?.permissionId ?? "", "reject", "not today")
    await ended
  })
})

describe("the list of models", () => {
  test("models are listed by provider without the providers' keys", async () => {
    const models = await client.models()
    expect(
      models.find(({ provider }) => provider === "scripted")?.models.map(({ id }) => id),
    ).toContain("m1")
    expect(JSON.stringify(models)).not.toContain(scripted.apiKey)
  })
})

describe("a provider's key", () => {
  test("a provider key is added and removed without a restart", async () => {
    const has = async () => (await client.models()).some(({ provider }) => provider === "groq")
    await client.setAuth("groq", "a-key-of-the-test")
    await client.dispose()
    const after = await has()
    await client.removeAuth("groq")
    await client.dispose()
    expect([after, await has()]).toEqual([true, false])
  })
})

describe("the durable history", () => {
  test("the durable history continues after a given sequence number without gaps", async () => {
    scripted.enqueue(text("for the record"))
    const id = await client.createSession()
    await turn(id, "something")
    const all = (await client.history({})).filter(({ agentSessionId }) => agentSessionId === id)
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_, index) => index))
    const rest = (await client.history({ [id]: 3 })).filter(
      ({ agentSessionId }) => agentSessionId === id,
    )
    expect(rest[0]?.seq).toBe(4)
    const known = (await client.sessionIds()).map((one) => [one, Number.MAX_SAFE_INTEGER])
    expect(await client.history(Object.fromEntries(known))).toEqual([])
  })
})

describe("a failed call", () => {
  test("a failed call reports its HTTP status and whether OpenCode definitely refused it", async () => {
    const missing = await failure(client.readSession("ses_none"))
    expect(missing).toMatchObject({ status: 404, isDefinite: true })
    const wrong = createAgentClient({ ...opencode, password: "wrong" })
    expect(await failure(wrong.health())).toMatchObject({ status: 401, isDefinite: true })
    const unreachable = createAgentClient({ ...opencode, url: "http://127.0.0.1:1" })
    expect(await failure(unreachable.health())).toMatchObject({
      status: undefined,
      isDefinite: false,
    })
  })

  test("reverting a busy agent session fails with SessionBusyError", async () => {
    scripted.on("long", [
      reply(tool("bash", { command: "sleep 30", description: "waits" })),
      text("late"),
    ])
    const id = await client.createSession()
    const messageID = mint("msg")
    await client.prompt(id, {
      messageID,
      model,
      parts: [{ type: "text", id: mint("prt"), text: "@@long@@" }],
    })
    await eventually(async () => (await client.statuses()).has(id))
    expect(await failure(client.revert(id, messageID))).toMatchObject({
      status: 409,
      errorName: "SessionBusyError",
    })
    await client.abort(id)
    await eventually(async () => !(await client.statuses()).has(id))
  })
})
