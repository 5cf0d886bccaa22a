/** The demo model with a real OpenCode: each command has its effect. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { z } from "zod"
import { demoProvider, startDemoModel } from "../../src/demo/demo.ts"
import type { ModelServer } from "../../src/demo/server.ts"
import { type OpenCode, startOpenCode } from "../kit/opencode.ts"
import { untilFound, untilTrue } from "../kit/until-true.ts"

let model: ModelServer
let opencode: OpenCode

beforeAll(async () => {
  model = await startDemoModel()
  opencode = await startOpenCode({ config: { ...demoProvider(model.url) } })
})

afterAll(async () => {
  await opencode.stop()
  await model.stop()
})

describe("a prompt to the demo model", () => {
  test("plain text gets a reply that names the scripted demo model", async () => {
    const { parts } = await prompt(await newSession(), "[User: Ada]\nhello there")
    expect(textIn(parts)).toContain("> hello there")
    expect(textIn(parts)).toContain("not an LLM")
  })

  test("a conversation gets a title from the user's text", async () => {
    const id = await newSession()
    await prompt(id, "[User: Ada]\nbirds of the shore")
    const title = async () => session.parse(await call("GET", `/session/${id}`)).title
    await untilTrue(async () => (await title()) === "birds of the shore", "title")
  })

  test("`run:` runs the command and quotes its output", async () => {
    const id = await newSession()
    const { parts } = await prompt(id, "run: echo $((6 * 7)) > answer.txt; cat answer.txt")
    expect(textIn(parts)).toContain("> 42")
    expect(await inWorkspace("answer.txt").text()).toBe("42\n")
  })

  test("`write:` writes the lines below it to a file in the workspace", async () => {
    const { parts } = await prompt(await newSession(), "write: notes/birds.md\n# Birds\n\nknot 🐦")
    expect(textIn(parts)).toContain("notes/birds.md")
    expect(await inWorkspace("notes/birds.md").text()).toBe("# Birds\n\nknot 🐦\n")
  })

  test("`ask` waits for the answer and repeats it", async () => {
    const id = await newSession()
    const answered = prompt(id, "ask")
    const asked = await untilFound(async () => {
      const open = questions.parse(await call("GET", "/question"))
      return open.find(({ sessionID }) => sessionID === id)
    }, "question")
    expect(asked.questions[0]?.options).toHaveLength(3)
    await call("POST", `/question/${asked.id}/reply`, { answers: [["Heron"]] })
    expect(textIn((await answered).parts)).toContain("Heron")
  })

  test("`plan` creates three todos and ticks them off", async () => {
    const id = await newSession()
    const { parts } = await prompt(id, "plan")
    expect(textIn(parts)).toContain("three todos")
    const todos = z
      .array(z.object({ status: z.string() }))
      .parse(await call("GET", `/session/${id}/todo`))
    expect(todos.map(({ status }) => status)).toEqual(["completed", "completed", "completed"])
  })

  test("`think` streams reasoning before the answer", async () => {
    const { parts } = await prompt(await newSession(), "think")
    expect(parts.map(({ type }) => type).filter((type) => !type.startsWith("step-"))).toEqual([
      "reasoning",
      "text",
    ])
    expect(parts.find(({ type }) => type === "reasoning")?.text).toContain("does not think")
  })

  test("`fail` ends the turn with an error that is not retried", async () => {
    const { info } = await prompt(await newSession(), "fail")
    expect(info.error?.name).toBe("APIError")
    expect(info.error?.data).toMatchObject({
      message: "the demo model was asked to fail",
      statusCode: 400,
      isRetryable: false,
    })
  })

  test("text that OpenCode adds to a prompt in plan mode is not run as a command", async () => {
    const { parts } = await prompt(await newSession(), "good morning", { agent: "plan" })
    expect(textIn(parts)).toContain("> good morning")
  })

  test("a disabled tool is not called", async () => {
    const id = await newSession()
    const { parts } = await prompt(id, "run: touch never.txt", { tools: { bash: false } })
    expect(textIn(parts)).toContain("is off")
    expect(await inWorkspace("never.txt").exists()).toBe(false)
  })
})

const session = z.object({ id: z.string(), title: z.string() })

const message = z.object({
  info: z.object({ error: z.object({ name: z.string(), data: z.unknown() }).optional() }),
  parts: z.array(z.object({ type: z.string(), text: z.string().optional() })),
})

const questions = z.array(
  z.object({
    id: z.string(),
    sessionID: z.string(),
    questions: z.array(z.object({ options: z.array(z.unknown()) })),
  }),
)

async function call(method: "GET" | "POST", path: string, body?: object): Promise<unknown> {
  const response = await fetch(opencode.url + path, {
    method,
    headers: {
      authorization: `Basic ${btoa(`opencode:${opencode.password}`)}`,
      "content-type": "application/json",
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  expect(response.status).toBe(200)
  return response.json()
}

const newSession = async (): Promise<string> => session.parse(await call("POST", "/session", {})).id

const prompt = async (id: string, text: string, more: object = {}) =>
  message.parse(
    await call("POST", `/session/${id}/message`, { parts: [{ type: "text", text }], ...more }),
  )

const textIn = (parts: z.output<typeof message>["parts"]): string =>
  parts.flatMap((part) => (part.type === "text" ? (part.text ?? []) : [])).join("")

const inWorkspace = (path: string) => Bun.file(join(opencode.directory, path))
