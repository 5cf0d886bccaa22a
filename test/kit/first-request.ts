/** The first request that a model receives, byte for byte: from a runner with a set of tools, or from OpenCode alone. */
import { writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { z } from "zod"
import type { OutboundFrame } from "../../src/wire/frames/index.ts"
import type { ToolSet } from "../../src/wire/operations/tool-sets.ts"
import { type ScriptedModel, startScriptedModel } from "./model.ts"
import { startOpenCode } from "./opencode.ts"
import { writePrograms } from "./programs.ts"
import { createSandbox, scriptedConfig, startRunner } from "./runner.ts"
import { startTestSessionAgent } from "./session-agent.ts"

const toolOf = z.looseObject({
  function: z.looseObject({ name: z.string(), description: z.string(), parameters: z.unknown() }),
})
const body = z.looseObject({ tools: z.array(toolOf).min(1) })

export interface FirstRequest {
  readonly bytes: number
  /** The tools as they are in the request. */
  readonly tools: readonly z.output<typeof toolOf>[]
  readonly names: readonly string[]
  readonly text: string
}

/** Bytes / 4: the usual estimate for English and JSON. */
export const tokensOf = (bytes: number): number => Math.ceil(bytes / 4)

const requestFrom = (bodies: readonly string[]): FirstRequest => {
  for (const sent of bodies) {
    // The length of this machine's temporary directory is not the tools'.
    const text = sent.replaceAll(tmpdir(), "/tmp")
    const parsed = body.safeParse(JSON.parse(text))
    if (!parsed.success) continue
    const { tools } = parsed.data
    const names = tools.map(({ function: { name } }) => name)
    return { bytes: Buffer.byteLength(text), tools, names, text }
  }
  const seen = bodies.map((text) => `\n${text.slice(0, 300)}`).join("")
  throw new Error(`no request with tools among ${bodies.length}${seen}`)
}

const LOG_LINES = 40

/** What a runner has said: the cause of a turn without a request. */
const wordsOf = (
  frames: readonly OutboundFrame[],
  log: readonly string[],
  problems: readonly string[],
): string => {
  const ends = frames.filter(({ type }) => type === "message.finalize" || type === "error")
  return [
    `frames: ${frames.map(({ type }) => type).join(" ")}`,
    ...ends.map((frame) => `${frame.type}: ${JSON.stringify(frame)}`),
    ...problems.map((problem) => `unreadable frame: ${problem}`),
    "last lines of the log:",
    ...log.slice(-LOG_LINES).map((line) => line.trimEnd()),
  ].join("\n")
}

/** The same error, with the words of what has failed. */
const withWords = (error: unknown, words: string): Error =>
  new Error(`${error instanceof Error ? error.message : String(error)}\n${words}`, {
    cause: error,
  })

/** Keeps the body of every request to the model and passes it on. */
const recordBodies = (model: ScriptedModel) => {
  const bodies: string[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const { method, url, headers } = request
      const sent = await request.text()
      if (sent !== "") bodies.push(sent)
      const target = new URL(new URL(url).pathname, model.url)
      return fetch(target, { method, headers, ...(sent !== "" && { body: sent }) })
    },
  })
  return {
    bodies,
    model: { ...model, url: `http://127.0.0.1:${server.port}/v1` },
    stop: () => server.stop(true),
  }
}

export interface FirstRequestOptions {
  readonly environment?: Readonly<Record<string, string>>
  /** What the session agent turns on and off. */
  readonly tools?: Readonly<Record<string, boolean>>
  /** The model of the prompt. */
  readonly model?: string
}

/** A runner that has everything its tools need: keys, secrets, programs, a parent session. */
export const firstRequestWith = async (
  set: ToolSet,
  { environment = {}, tools = {}, model: chosen }: FirstRequestOptions = {},
): Promise<FirstRequest> => {
  const model = await startScriptedModel()
  const recorder = recordBodies(model)
  const agent = startTestSessionAgent({ config: { ...scriptedConfig(recorder.model), tools } })
  const sandbox = await createSandbox(agent)
  const programs = await writePrograms(sandbox.root)
  const secretsFile = join(sandbox.root, "secrets.json")
  await writeFile(secretsFile, "{}", { mode: 0o600 })
  const runner = await startRunner(
    agent,
    {
      PATH: [programs, sandbox.environment["PATH"]].join(delimiter),
      SANDPIPER_TOOLS: set,
      SANDPIPER_SECRETS_FILE: secretsFile,
      PARENT_SESSION_ID: "the-parent",
      PARALLEL_API_KEY: "key-of-parallel",
      ...environment,
    },
    { in: sandbox },
  )
  try {
    await agent.frame("agentStatus", ({ status }) => status === "idle")
    const content = { content: "hello", ...(chosen !== undefined && { model: chosen }) }
    agent.say({ type: "prompt", messageId: "first", ...content })
    await agent.frame("complete", ({ messageId }) => messageId === "first")
    return requestFrom(recorder.bodies)
  } catch (error) {
    throw withWords(error, wordsOf(agent.frames, runner.log, agent.problems))
  } finally {
    await runner.stop()
    await agent.stop()
    await recorder.stop()
    await model.stop()
  }
}

export const firstRequestOfOpenCodeAlone = async (): Promise<FirstRequest> => {
  const model = await startScriptedModel()
  const recorder = recordBodies(model)
  const config = JSON.stringify(model.config).replaceAll(model.url, recorder.model.url)
  const opencode = await startOpenCode({ config: JSON.parse(config) })
  const call = async (path: string, content: unknown) => {
    const response = await fetch(opencode.url + path, {
      method: "POST",
      headers: {
        authorization: `Basic ${btoa(`opencode:${opencode.password}`)}`,
        "content-type": "application/json",
      },
      body: JSON.stringify(content),
    })
    return response.text()
  }
  try {
    const { id } = z.object({ id: z.string() }).parse(JSON.parse(await call("/session", {})))
    const parts = [{ type: "text", text: "hello" }]
    const chosen = { providerID: "scripted", modelID: "m1" }
    const answer = await call(`/session/${id}/message`, { model: chosen, parts })
    try {
      return requestFrom(recorder.bodies)
    } catch (error) {
      throw withWords(error, `answer of OpenCode: ${answer.slice(0, 2000)}`)
    }
  } finally {
    await opencode.stop()
    await recorder.stop()
    await model.stop()
  }
}
