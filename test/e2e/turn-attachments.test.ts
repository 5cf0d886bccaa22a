/** Attachments of a prompt, from the frame to the model's request. */
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
      // The servers of these tests are on this machine, where attachments are not fetched from otherwise.
      mayFetch: () => true,
      furnish: async (sandbox) => {
        await makeRepository(sandbox)
        const models = join(sandbox.root, "models")
        await Bun.write(join(models, "ggml-base.en.bin"), "a model")
        // Fake ffmpeg and whisper: these tests check where the transcript goes, not the recognition.
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

/** An image of one pixel. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

const image = {
  type: "file",
  mime: "image/png",
  url: `data:image/png;base64,${PNG}`,
  filename: "point.png",
} as const

test("an image is sent to a model with image input", async () => {
  c.model.on("image", [text("a point")])
  await c.ask("i1", "@@image@@", { model: "scripted/m1", attachments: [image] })
  expect(seenByModel()).toContain(PNG)
})

test("an image is withheld from a model without image input and a note replaces it", async () => {
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

test("the text of a PDF is sent to the model and the file is saved in the workspace", async () => {
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

test("the transcript of a voice message is sent to the model and to the session agent", async () => {
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

test("an attachment that cannot be fetched is reported to the model and the session agent, and the prompt continues", async () => {
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

test("an abort while an attachment is fetched ends the prompt without a call to the model", async () => {
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

test("saved attachments do not appear in git status", async () => {
  const { stdout } = Bun.spawnSync(["git", "status", "--porcelain"], {
    cwd: c.runner.sandbox.workDir,
  })
  expect(stdout.toString()).toBe("")
})
