/** Attachments, kind by kind and limit by limit. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createAttachments } from "../../../src/runner/prompt/attachments.ts"
import { createReadPdf } from "../../../src/runner/prompt/read-pdf.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { runnerFromSource } from "../../kit/runner.ts"
import { AttachmentError } from "../../../src/runner/prompt/fetch-file.ts"
import { safeName } from "../../../src/runner/prompt/file-kind.ts"
import { createSaveFile } from "../../../src/runner/prompt/save-file.ts"
import type { Inbound } from "../../../src/wire/frames/index.ts"

let workDir: string
let server: ReturnType<typeof Bun.serve>
beforeAll(async () => {
  workDir = await mkdtemp(join(tmpdir(), "attachments-"))
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) => {
      if (url.endsWith("/notes.txt")) return new Response("from the web")
      if (url.endsWith("/endless")) {
        const chunk = new Uint8Array(1024 * 1024)
        return new Response(new ReadableStream({ pull: (stream) => stream.enqueue(chunk) }))
      }
      return new Response("no", { status: 404 })
    },
  })
})
afterAll(async () => {
  await server.stop(true)
  await rm(workDir, { recursive: true })
})

const data = (mime: string, contents: string | Uint8Array) =>
  `data:${mime};base64,${Buffer.from(contents).toString("base64")}`

const prepare = async (
  attachments: NonNullable<Inbound<"prompt">["attachments"]>,
  transcribe: (bytes: Uint8Array) => Promise<string> = async () => "hello",
) => {
  const transcripts: string[] = []
  const problems: string[] = []
  const read = createAttachments({
    save: createSaveFile(workDir),
    readPdf: createReadPdf({ self: runnerFromSource, owner: undefined, clock: systemClock }),
    transcribe,
    onTranscript: (_prompt, transcript) => void transcripts.push(transcript),
    onProblem: (_prompt, problem) => void problems.push(problem),
  })
  const prompt = {
    type: "prompt",
    messageId: crypto.randomUUID(),
    content: "see",
    attachments,
  } as const
  const { files, notes } = await read(
    { ...prompt, attachments: [...attachments] },
    new AbortController().signal,
  )
  return { files, notes: notes.join("\n"), transcripts, problems }
}

const file = (mime: string, url: string, filename?: string) =>
  ({ type: "file", mime, url, ...(filename !== undefined && { filename }) }) as const

describe("an attachment", () => {
  test("that is an image is shown as it is", async () => {
    const url = data("image/png", "not really a png")
    const { files, notes } = await prepare([file("image/png", url, "cat.png")])
    expect(files).toEqual([{ mime: "image/png", url, filename: "cat.png" }])
    expect(notes).toBe("")
  })

  test("that is text is read into the prompt, also when its type is unknown but its name is not", async () => {
    const { notes, files } = await prepare([
      file("text/plain", data("text/plain", "remember the milk"), "notes.txt"),
      file("application/octet-stream", data("application/octet-stream", "let x = 1"), "main.rs"),
      file("text/plain", "data:text/plain,plain%20and%20simple"),
    ])
    expect(files).toEqual([])
    expect(notes).toContain('<attached-file name="notes.txt">\nremember the milk\n</attached-file>')
    expect(notes).toContain("let x = 1")
    expect(notes).toContain("plain and simple")
  })

  test("that is a very long text is cut, and the whole of it saved", async () => {
    const long = "0123456789".repeat(20_000)
    const { notes } = await prepare([file("text/plain", data("text/plain", long), "long.txt")])
    expect(notes.length).toBeLessThan(101_000)
    const path = /read (\S+long\.txt)\)/.exec(notes)?.[1] ?? ""
    expect(await readFile(join(workDir, path), "utf8")).toBe(long)
  })

  test("that is a PDF is read page by page and saved with its text", async () => {
    const pdf = await Bun.file(join(import.meta.dir, "../../fixtures/files/two-pages.pdf")).bytes()
    const { notes } = await prepare([
      file("application/pdf", data("application/pdf", pdf), "a.pdf"),
    ])
    expect(notes).toContain("[page 2]\nPage two says: the code word is plover.")
    const saved = /saved as (\S+a\.pdf), its text as (\S+a\.pdf\.txt)\./.exec(notes)
    expect(Buffer.from(await Bun.file(join(workDir, saved?.[1] ?? "")).bytes())).toEqual(
      Buffer.from(pdf),
    )
    expect(await Bun.file(join(workDir, saved?.[2] ?? "")).text()).toContain("sandpiper")
  })

  test("that only says it is a PDF is saved all the same, and both sides are told", async () => {
    const { notes, problems } = await prepare([
      file("application/pdf", data("application/pdf", "no pdf"), "b.pdf"),
    ])
    expect(problems[0]).toContain(
      'attachment "b.pdf": it could not be read as a PDF (it is saved as',
    )
    expect(notes).toContain("Tell the user")
  })

  test("that is speech is written down, and the transcript told", async () => {
    const { notes, transcripts, files } = await prepare(
      [file("audio/ogg; codecs=opus", data("audio/ogg", "sound"), "voice.ogg")],
      async () => "please fix the build",
    )
    expect(transcripts).toEqual(["please fix the build"])
    expect(notes).toContain('voice message "voice.ogg" says: please fix the build')
    expect(files).toEqual([])
  })

  test("that is speech nobody can write down is saved and named, with the reason", async () => {
    const { notes, problems } = await prepare(
      [file("audio/ogg", data("audio/ogg", "sound"), "voice.ogg")],
      async () => {
        throw new AttachmentError("whisper-cli is not installed")
      },
    )
    expect(problems[0]).toContain("whisper-cli is not installed")
    expect(notes).toMatch(/saved as \S+voice\.ogg/)
  })

  test("of any other kind is saved and named", async () => {
    const bytes = new Uint8Array([0, 1, 2, 3])
    const { notes } = await prepare([
      file("application/zip", data("application/zip", bytes), "a.zip"),
    ])
    const path = /saved as (\S+a\.zip)\./.exec(notes)?.[1] ?? ""
    expect(path).toStartWith(".sandpiper/attachments/")
    expect(await Bun.file(join(workDir, path)).bytes()).toEqual(bytes)
    expect(await readFile(join(workDir, ".sandpiper/.gitignore"), "utf8")).toBe("*\n")
  })

  test("that calls itself text and is not is no text", async () => {
    const { notes } = await prepare([
      file("text/plain", data("text/plain", new Uint8Array([65, 0, 66])), "x.txt"),
    ])
    expect(notes).toContain("is saved as")
  })

  test("on the web is fetched", async () => {
    const { notes } = await prepare([file("text/plain", `${server.url.href}notes.txt`, "n.txt")])
    expect(notes).toContain("from the web")
  })

  test("on the web that is not there is a problem of this file only", async () => {
    const { notes, problems } = await prepare([
      file("text/plain", `${server.url.href}gone`, "gone.txt"),
      file("text/plain", data("text/plain", "but I am here")),
    ])
    expect(problems).toEqual(['attachment "gone.txt": its server answered 404'])
    expect(notes).toContain("but I am here")
  })
})

describe("the limits", () => {
  test("a file on the web that never ends is left when it is too large", async () => {
    const { problems } = await prepare([file("text/plain", `${server.url.href}endless`, "endless")])
    expect(problems[0]).toContain("it is larger than the 25 MB")
  })

  test("all files together may have 25 MB; the one too many is named", async () => {
    const part = data("application/zip", Buffer.alloc(13 * 1024 * 1024, 1))
    const { notes, problems } = await prepare([
      file("application/zip", part, "one.zip"),
      file("application/zip", part, "two.zip"),
    ])
    expect(notes).toContain('"one.zip"')
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain('attachment "two.zip": it is larger than the 12 MB')
  })

  test("eight files are taken, the ninth is named", async () => {
    const nine = Array.from({ length: 9 }, (_, n) =>
      file("text/plain", data("text/plain", `text ${n}`), `${n}.txt`),
    )
    const { notes, problems } = await prepare(nine)
    expect(problems).toEqual(['attachment "8.txt": at most 8 files are taken'])
    expect(notes).toContain("text 7")
  })

  test("a data URL that is none is a problem of this file only", async () => {
    const { problems } = await prepare([
      file("image/png", "data:image/png;base64,%%%", "a.png"),
      file("image/png", "data:image/png;base64", "b.png"),
    ])
    expect(problems).toHaveLength(2)
  })
})

test("a link that leads out of the workspace is not followed", async () => {
  const trapped = await mkdtemp(join(tmpdir(), "attachments-"))
  const outside = await mkdtemp(join(tmpdir(), "attachments-"))
  await symlink(outside, join(trapped, ".sandpiper"))
  const saving = createSaveFile(trapped)("p", { name: "a.bin", bytes: new Uint8Array([1]) })
  const why = await saving.catch((error: Error) => error.message)
  expect(why).toBe("it cannot be saved, .sandpiper is in the way")
  expect(await readdir(outside)).toEqual([])
  await Promise.all([trapped, outside].map((folder) => rm(folder, { recursive: true })))
})

describe("a file's name", () => {
  test("stays in its folder", () => {
    expect(safeName("../../etc/passwd", 0)).toBe("passwd")
    expect(safeName("..", 0)).toBe("attachment-1")
    expect(safeName("C:\\x\\évil\n.txt", 0)).toBe("évil_.txt")
    expect(safeName(undefined, 2)).toBe("attachment-3")
  })

  test("that is there already gets a number", async () => {
    const save = createSaveFile(workDir)
    const bytes = new Uint8Array([1])
    expect(await save("twice", { name: "a.bin", bytes })).toBe(".sandpiper/attachments/twice/a.bin")
    expect(await save("twice", { name: "a.bin", bytes })).toBe(
      ".sandpiper/attachments/twice/2-a.bin",
    )
  })
})
