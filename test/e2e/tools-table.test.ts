/**
 * Every tool through the real OpenCode, the gateway and the link: a valid call, an invalid call and a refused call. The tests share one
 * runner, OpenCode, model and session agent; the calls of a group are one turn. The tool that ends the runner has a runner of its own.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFile, writeFile } from "node:fs/promises"
import { delimiter, join } from "node:path"
import { z } from "zod"
import type { Outbound, OutboundFrame } from "../../src/wire/frames/index.ts"
import { tools as ourTools } from "../../tools/index.ts"
import { sampleAnswer } from "../kit/answers.ts"
import { type ScriptedModel, startScriptedModel, text, tools } from "../kit/model.ts"
import { startParallel } from "../kit/parallel.ts"
import { PNG, writePrograms } from "../kit/programs.ts"
import { createSandbox, scriptedConfig, startRunner, type TestRunner } from "../kit/runner.ts"
import { startTestSessionAgent, type TestSessionAgent } from "../kit/session-agent.ts"
import { rows } from "../tools/rows.ts"

const TOKEN = "tok_8f3a51d97c20b64e"
const PASSWORD = "password-of-opencode-in-this-test"
const names = Object.keys(ourTools).toSorted()

let model: ScriptedModel
let agent: TestSessionAgent
let runner: TestRunner
let parallel: ReturnType<typeof startParallel>
let answersWith: "samples" | "refusal" = "samples"

beforeAll(async () => {
  model = await startScriptedModel()
  parallel = startParallel()
  agent = startTestSessionAgent({
    config: scriptedConfig(model),
    answer: (request) =>
      answersWith === "samples" ? sampleAnswer(request) : { error: "the session agent says no" },
  })
  const sandbox = await createSandbox(agent)
  const bin = await writePrograms(sandbox.root)
  const secretsFile = join(sandbox.root, "secrets.json")
  await writeFile(secretsFile, JSON.stringify({ "api/token": TOKEN }), { mode: 0o600 })
  await writeFile(join(sandbox.workDir, "dot.png"), PNG)
  await writeFile(join(sandbox.workDir, "said.ogg"), "sound")
  await writeFile(join(sandbox.workDir, "env.tpl"), "TOKEN=secret://api/token\n")
  runner = await startRunner(
    agent,
    {
      PATH: [bin, sandbox.environment["PATH"]].join(delimiter),
      OPENCODE_SERVER_PASSWORD: PASSWORD,
      SANDPIPER_SECRETS_FILE: secretsFile,
      SANDPIPER_PUBLIC_URL: "https://sandbox.example/",
      PARENT_SESSION_ID: "the-parent",
      SESSION_KIND: "setup",
      PARALLEL_API_KEY: "key-of-parallel",
      PARALLEL_API_URL: parallel.url,
      WHISPER_MODELS: join(sandbox.root, "models"),
    },
    { in: sandbox },
  )
  await agent.frame("agentStatus", ({ status }) => status === "idle")
})

afterAll(async () => {
  await runner.stop()
  await agent.stop()
  await model.stop()
  await parallel.stop()
})

const opencode = async (path: string): Promise<unknown> => {
  const authorization = `Basic ${btoa(`opencode:${PASSWORD}`)}`
  const response = await fetch(`${runner.gatewayUrl}/opencode${path}`, {
    headers: { authorization },
  })
  return response.json()
}

const attachment = z.looseObject({ mime: z.string(), url: z.string() })
const withParts = z.looseObject({
  parts: z.array(
    z.looseObject({
      tool: z.string().optional(),
      state: z.looseObject({ attachments: z.array(attachment).optional() }).optional(),
    }),
  ),
})

type Update = Outbound<"message.part.tool-update">

/** Has the model make all calls in one turn; resolves with the end of each call and the frames the session agent received. */
const callAll = async (
  messageId: string,
  calls: readonly { readonly name: string; readonly args: Readonly<Record<string, unknown>> }[],
  by = agent,
) => {
  const from = by.frames.length
  model.on(messageId, [...(calls.length > 0 ? [tools(calls)] : []), text("That was all.")])
  by.say({
    type: "prompt",
    messageId,
    content: `@@${messageId}@@`,
    channelType: "slack",
    channelId: "C9",
  })
  await by.frame("complete", (frame) => frame.messageId === messageId, from)
  const frames = by.frames.slice(from)
  const ends = frames.filter(
    (frame): frame is Update =>
      frame.type === "message.part.tool-update" && ["completed", "error"].includes(frame.status),
  )
  return { frames, endOf: new Map(ends.map((end) => [end.toolName, end])) }
}

const asked = Object.entries(rows).filter(([, row]) => "frame" in row)

const declared = z.object({
  function: z.object({
    name: z.string(),
    description: z.string(),
    parameters: z.looseObject({
      properties: z.record(z.string(), z.looseObject({ description: z.string().optional() })),
    }),
  }),
})

/** Frames that are not requests: the session agent has no response to refuse them with. */
const withoutResponse = new Set(["git-state", "screenshot", "tunnels"])

describe("the tools in OpenCode", () => {
  test("OpenCode lists all 70 tools of Sandpiper", async () => {
    const listed = (await opencode("/experimental/tool/ids")) as string[]
    expect(names).toHaveLength(70)
    expect(listed).toEqual(expect.arrayContaining(names))
  })

  test("OpenCode lists three skills and the model receives the instructions of the sandbox", async () => {
    const skills = z.array(z.looseObject({ name: z.string() })).parse(await opencode("/skill"))
    expect(skills.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["browser", "sandbox-tunnels", "workflows"]),
    )
    await callAll("greeting", [])
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("You work in a sandbox")
  })

  test("every tool has a row in the table of test calls", () => {
    expect([...Object.keys(rows), "complete_session"].toSorted()).toEqual(names)
  })
})

describe("a valid call", () => {
  let frames: readonly OutboundFrame[]
  let endOf: ReadonlyMap<string, Update>

  beforeAll(async () => {
    for (const name of ["kept", "old"]) {
      await callAll(`tunnel-${name}`, [{ name: "register_tunnel", args: { name, port: 9999 } }])
    }
    const calls = Object.entries(rows).map(([name, { good }]) => ({ name, args: good }))
    ;({ frames, endOf } = await callAll("good", calls))
  })

  test.each(Object.entries(rows))("a valid call of %s returns its result", (name, { reads }) => {
    const end = endOf.get(name)
    expect(`${end?.status}: ${end?.error ?? String(end?.result)}`).toStartWith("completed: ")
    expect(String(end?.result)).toContain(reads)
  })

  test.each(asked)(
    "a valid call of %s sends its frame to the session agent",
    (_, { frame = { type: "" } }) => {
      const { tunnels: _whole, ...fields } = frame
      const wanted = "tunnels" in frame ? { type: frame.type } : fields
      expect(frames).toContainEqual(expect.objectContaining(wanted))
    },
  )

  test("every request names the agent session that made the call", () => {
    const requests = frames.filter((frame) => "requestId" in frame)
    expect(requests.length).toBeGreaterThan(40)
    const sessions = new Set(
      requests.map((frame) => "opencodeSessionId" in frame && frame.opencodeSessionId),
    )
    expect([...sessions]).toEqual([expect.stringMatching(/^ses_/)])
  })

  test("an image of a tool is sent to the channel and prompt of its call", () => {
    const images = frames.filter((frame) => frame.type === "screenshot")
    expect(images).toHaveLength(2)
    for (const image of images) {
      expect(image).toMatchObject({ channelType: "slack", channelId: "C9", messageId: "good" })
      expect(Buffer.from(image.data, "base64")).toEqual(PNG)
    }
  })

  test("an image of a tool is attached to the tool result for the model", async () => {
    const [image] = frames.filter((frame) => frame.type === "screenshot")
    const messages = await opencode(`/session/${image?.opencodeSessionId}/message`)
    const parts = z
      .array(withParts)
      .parse(messages)
      .flatMap(({ parts: all }) => all)
    const attached = parts.flatMap(({ tool, state }) =>
      (state?.attachments ?? []).map(({ mime, url }) => ({ tool, mime, url })),
    )
    const url = `data:image/png;base64,${PNG.toString("base64")}`
    expect(attached).toEqual([
      { tool: "browser_screenshot", mime: "image/png", url },
      { tool: "send_image", mime: "image/png", url },
    ])
  })

  test("the value of a secret appears in no frame, no log line and no model request", async () => {
    expect(await readFile(join(runner.sandbox.workDir, ".env"), "utf8")).toBe(`TOKEN=${TOKEN}\n`)
    const typed = await readFile(join(runner.sandbox.root, "browser-stdin"), "utf8")
    expect(JSON.parse(typed)).toEqual([["fill", "#password", TOKEN]])
    const seen = [agent.frames, runner.log, model.requests.map(({ messages }) => messages)]
    for (const place of seen) {
      expect(JSON.stringify(place)).not.toContain(TOKEN)
      expect(JSON.stringify(place)).not.toContain(btoa(TOKEN).slice(0, 12))
    }
  })
})

describe("an invalid call", () => {
  let endOf: ReadonlyMap<string, Update>
  let requests: readonly OutboundFrame[]
  const bad = { ...rows, complete_session: { bad: { reason: 42 }, refusal: "reason must be text" } }

  beforeAll(async () => {
    const calls = Object.entries(bad).map(([name, row]) => ({ name, args: row.bad }))
    const { frames, endOf: ends } = await callAll("bad", calls)
    endOf = ends
    requests = frames.filter((frame) => "requestId" in frame)
  })

  test.each(Object.entries(bad))(
    "an invalid call of %s fails with an error that says what to correct",
    (name, { refusal }) => {
      const end = endOf.get(name)
      expect(end?.status).toBe("error")
      expect(end?.error).toContain(refusal)
    },
  )

  test("invalid calls send no request to the session agent", () => {
    expect(requests).toEqual([])
  })
})

describe("a call that the session agent refuses", () => {
  const refusable = asked.filter(([, { frame }]) => !withoutResponse.has(frame?.type ?? ""))
  let endOf: ReadonlyMap<string, Update>

  beforeAll(async () => {
    answersWith = "refusal"
    try {
      const calls = refusable.map(([name, { good }]) => ({ name, args: good }))
      ;({ endOf } = await callAll("refused", calls))
    } finally {
      answersWith = "samples"
    }
  })

  test.each(refusable)("a refused call of %s fails with the error of the session agent", (name) => {
    expect(endOf.get(name)).toMatchObject({
      status: "error",
      error: expect.stringContaining("the session agent says no"),
    })
  })
})

describe("the tools offered to the model", () => {
  test("every tool and every argument offered to the model has a description", async () => {
    await callAll("offered", [])
    const offered = model.requests.at(-1)?.tools
    const ours = z
      .array(declared)
      .parse(offered?.filter(({ function: { name } }) => name in ourTools))
    expect(ours.map(({ function: { name } }) => name).toSorted()).toEqual(names)
    for (const { function: made } of ours) {
      expect(made.description.length).toBeGreaterThan(10)
      const fields = Object.entries(made.parameters.properties)
      expect(fields).not.toEqual([])
      for (const [field, schema] of fields) {
        expect(`${made.name}.${field}: ${schema.description ?? "nothing"}`).not.toEndWith(
          ": nothing",
        )
      }
    }
  })
})

describe("complete_session", () => {
  test("complete_session sends one self-terminate frame and the runner exits with code 0", async () => {
    const own = startTestSessionAgent({ config: scriptedConfig(model) })
    const ending = await startRunner(own)
    try {
      await own.frame("agentStatus", ({ status }) => status === "idle")
      const calls = [{ name: "complete_session", args: {} }]
      const { frames, endOf } = await callAll("complete", calls, own)
      expect(endOf.get("complete_session")?.result).toContain("Session completed")
      expect(frames.filter(({ type }) => type === "self-terminate")).toHaveLength(1)
      expect(await ending.daemon.done).toEqual({ code: 0, why: "the agent completed the session" })
    } finally {
      await ending.stop()
      await own.stop()
    }
  })
})
