/** Files that come with a prompt, all the way to the model. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { delimiter, join } from "node:path"
import { type Conversation, makeRepository, startConversation } from "../kit/conversation.ts"
import { text } from "../kit/model.ts"

const programs = join(import.meta.dir, "../kit/programs")

let c: Conversation
beforeAll(async () => {
  c = await startConversation(
    {},
    {
      furnish: async (sandbox) => {
        await makeRepository(sandbox)
        const models = join(sandbox.root, "models")
        await Bun.write(join(models, "ggml-base.en.bin"), "a model")
        // Stand-ins: what is tried here is the way of the words, not the hearing.
        const path = [programs, sandbox.environment["PATH"]].join(delimiter)
        Object.assign(sandbox.environment, { WHISPER_MODELS: models, PATH: path })
      },
    },
  )
})
afterAll(() => c.stop())

const dataUrl = (mime: string, bytes: string | Uint8Array) =>
  `data:${mime};base64,${Buffer.from(bytes).toString("base64")}`
const seenByModel = () => JSON.stringify(c.model.requests.at(-1)?.messages)

/** One white point. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

const image = {
  type: "file",
  mime: "image/png",
  url: `data:image/png;base64,${PNG}`,
  filename: "point.png",
} as const

test("an image is shown to a model that takes images", async () => {
  c.model.on("image", [text("a point")])
  await c.ask("i1", "@@image@@", { model: "scripted/m1", attachments: [image] })
  expect(seenByModel()).toContain(PNG)
})

test("an image is kept from a model that does not say that it takes images, which is told so", async () => {
  c.model.on("blind", [text("I cannot see it")])
  await c.ask("i2", "@@blind@@", {
    channelType: "web",
    channelId: "blind",
    model: "scripted/m2",
    attachments: [image],
  })
  expect(seenByModel()).not.toContain(PNG)
  expect(seenByModel()).toContain("does not support image input")
})

test("a PDF's words reach the model, and the file the workspace", async () => {
  c.model.on("pdf", [text("plover")])
  const bytes = await Bun.file(join(import.meta.dir, "../fixtures/files/two-pages.pdf")).bytes()
  const url = dataUrl("application/pdf", bytes)
  await c.ask("d1", "what is the code word? @@pdf@@", {
    attachments: [{ type: "file", mime: "application/pdf", url, filename: "two.pdf" }],
  })
  expect(seenByModel()).toContain("the code word is plover")
  const saved = join(c.runner.sandbox.workDir, ".sandpiper/attachments/d1/two.pdf")
  expect(await Bun.file(saved).exists()).toBe(true)
})

test("a voice message is written down for the model and for the session agent", async () => {
  c.model.on("voice", [text("on it")])
  await c.ask("v1", "@@voice@@", {
    attachments: [
      {
        type: "file",
        mime: "audio/ogg",
        url: dataUrl("audio/ogg", "fix the build"),
        filename: "v.ogg",
      },
    ],
  })
  expect(seenByModel()).toContain("fix the build")
  expect(await c.agent.frame("audio-transcript")).toMatchObject({
    messageId: "v1",
    transcript: "fix the build",
  })
})

test("a file that cannot be had is told to both sides, and the prompt goes on", async () => {
  c.model.on("missing", [text("I could not open it")])
  const answer = await c.ask("m1", "@@missing@@", {
    attachments: [
      {
        type: "file",
        mime: "text/plain",
        url: "http://127.0.0.1:1/gone.txt",
        filename: "gone.txt",
      },
    ],
  })
  expect(seenByModel()).toContain("it could not be fetched")
  const details = answer.of("agentStatus").map(({ detail }) => detail)
  expect(details).toContain('attachment "gone.txt": it could not be fetched')
  expect(answer.final).toMatchObject({ reason: "end_turn" })
})

test("an abort while a file is fetched ends the prompt, and OpenCode never hears of it", async () => {
  const asked = Promise.withResolvers<void>()
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => {
      asked.resolve()
      return new Promise<Response>(() => {})
    },
  })
  const calls = c.model.requests.length
  c.say("slow", "@@slow@@", {
    attachments: [{ type: "file", mime: "text/plain", url: server.url.href, filename: "slow.txt" }],
  })
  await asked.promise
  c.agent.say({ type: "abort", channelType: "web", channelId: "default" })
  const answer = await c.ended("slow")
  expect(answer.of("complete")).toHaveLength(1)
  expect(c.model.requests).toHaveLength(calls)
  await server.stop(true)
  c.model.on("slow-next", [text("still here")])
  expect((await c.ask("sn", "@@slow-next@@")).final).toMatchObject({ finalText: "still here" })
})

test("git does not see what was attached", async () => {
  const { stdout } = Bun.spawnSync(["git", "status", "--porcelain"], {
    cwd: c.runner.sandbox.workDir,
  })
  expect(stdout.toString()).toBe("")
})
