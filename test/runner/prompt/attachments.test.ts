/** Attachments by kind, and their limits. */
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
    // The test's web server is on this machine.
    mayFetch: ({ origin }) => origin === server.url.origin,
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

describe("attachments", () => {
  test("an image is passed to the model unchanged", async () => {
    const url = data("image/png", "not really a png")
    const { files, notes } = await prepare([file("image/png", url, "cat.png")])
    expect(files).toEqual([{ mime: "image/png", url, filename: "cat.png" }])
    expect(notes).toBe("")
  })

  test("a text file is inlined into the prompt, recognized by its MIME type or its name", async () => {
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

  test("a very long text is cut in the prompt and saved completely", async () => {
    const long = "0123456789".repeat(20_000)
    const { notes } = await prepare([file("text/plain", data("text/plain", long), "long.txt")])
    expect(notes.length).toBeLessThan(101_000)
    const path = /read (\S+long\.txt)\)/.exec(notes)?.[1] ?? ""
    expect(await readFile(join(workDir, path), "utf8")).toBe(long)
  })

  test("a PDF is inlined page by page and saved together with its text", async () => {
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

  test("a file that is only declared as a PDF is saved, and the author and the model get the error", async () => {
    const { notes, problems } = await prepare([
      file("application/pdf", data("application/pdf", "no pdf"), "b.pdf"),
    ])
    expect(problems[0]).toContain(
      'attachment "b.pdf": it could not be read as a PDF (the file is saved as',
    )
    expect(notes).toContain("Tell the user")
  })

  test("a voice message is transcribed, and the transcript is reported", async () => {
    const { notes, transcripts, files } = await prepare(
      [file("audio/ogg; codecs=opus", data("audio/ogg", "sound"), "voice.ogg")],
      async () => "please fix the build",
    )
    expect(transcripts).toEqual(["please fix the build"])
    expect(notes).toContain('voice message "voice.ogg" says: please fix the build')
    expect(files).toEqual([])
  })

  test("a voice message that cannot be transcribed is saved, and the reason is reported", async () => {
    const { notes, problems } = await prepare(
      [file("audio/ogg", data("audio/ogg", "sound"), "voice.ogg")],
      async () => {
        throw new AttachmentError("whisper-cli is not installed")
      },
    )
    expect(problems[0]).toContain("whisper-cli is not installed")
    expect(notes).toMatch(/saved as \S+voice\.ogg/)
  })

  test("a file of any other kind is saved, and the prompt names its path", async () => {
    const bytes = new Uint8Array([0, 1, 2, 3])
    const { notes } = await prepare([
      file("application/zip", data("application/zip", bytes), "a.zip"),
    ])
    const path = /saved as (\S+a\.zip)\./.exec(notes)?.[1] ?? ""
    expect(path).toStartWith(".sandpiper/attachments/")
    expect(await Bun.file(join(workDir, path)).bytes()).toEqual(bytes)
    expect(await readFile(join(workDir, ".sandpiper/.gitignore"), "utf8")).toBe("*\n")
  })

  test("a binary file that is declared as text is saved instead of inlined", async () => {
    const { notes } = await prepare([
      file("text/plain", data("text/plain", new Uint8Array([65, 0, 66])), "x.txt"),
    ])
    expect(notes).toContain("is saved as")
  })

  test("an attachment with a web URL is fetched", async () => {
    const { notes } = await prepare([file("text/plain", `${server.url.href}notes.txt`, "n.txt")])
    expect(notes).toContain("from the web")
  })

  test("a web URL that fails is an error of this file only", async () => {
    const { notes, problems } = await prepare([
      file("text/plain", `${server.url.href}gone`, "gone.txt"),
      file("text/plain", data("text/plain", "but I am here")),
    ])
    expect(problems).toEqual(['attachment "gone.txt": its server responded with HTTP 404'])
    expect(notes).toContain("but I am here")
  })
})

describe("the limits of attachments", () => {
  test("the download of an endless file is canceled when it exceeds the limit", async () => {
    const { problems } = await prepare([file("text/plain", `${server.url.href}endless`, "endless")])
    expect(problems[0]).toContain("it is larger than the 25 MB")
  })

  test("all files together may have 25 MB, and the file that exceeds it is reported", async () => {
    const part = data("application/zip", Buffer.alloc(13 * 1024 * 1024, 1))
    const { notes, problems } = await prepare([
      file("application/zip", part, "one.zip"),
      file("application/zip", part, "two.zip"),
    ])
    expect(notes).toContain('"one.zip"')
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain('attachment "two.zip": it is larger than the 12 MB')
  })

  test("twenty files are accepted, and the next one is reported as an error", async () => {
    const files = Array.from({ length: 21 }, (_, n) =>
      file("text/plain", data("text/plain", `text ${n}`), `${n}.txt`),
    )
    const { notes, problems } = await prepare(files)
    expect(problems).toEqual(['attachment "20.txt": a prompt can have at most 20 files'])
    expect(notes).toContain("text 19")
  })

  test("an invalid data URL is an error of this file only", async () => {
    const { problems } = await prepare([
      file("image/png", "data:image/png;base64,%%%", "a.png"),
      file("image/png", "data:image/png;base64", "b.png"),
    ])
    expect(problems).toHaveLength(2)
  })
})

test("a symbolic link that leads out of the workspace is not followed", async () => {
  const trapped = await mkdtemp(join(tmpdir(), "attachments-"))
  const outside = await mkdtemp(join(tmpdir(), "attachments-"))
  await symlink(outside, join(trapped, ".sandpiper"))
  const saving = createSaveFile(trapped)("p", { name: "a.bin", bytes: new Uint8Array([1]) })
  const why = await saving.catch((error: Error) => error.message)
  expect(why).toBe("it cannot be saved: .sandpiper is not a directory")
  expect(await readdir(outside)).toEqual([])
  await Promise.all([trapped, outside].map((folder) => rm(folder, { recursive: true })))
})

describe("file names", () => {
  test("a file name cannot lead out of its folder", () => {
    expect(safeName("../../etc/passwd", 0)).toBe("passwd")
    expect(safeName("..", 0)).toBe("attachment-1")
    expect(safeName("C:\\x\\évil\n.txt", 0)).toBe("évil_.txt")
    expect(safeName(undefined, 2)).toBe("attachment-3")
  })

  test("a file name that exists already gets a number", async () => {
    const save = createSaveFile(workDir)
    const bytes = new Uint8Array([1])
    expect(await save("twice", { name: "a.bin", bytes })).toBe(".sandpiper/attachments/twice/a.bin")
    expect(await save("twice", { name: "a.bin", bytes })).toBe(
      ".sandpiper/attachments/twice/2-a.bin",
    )
  })
})
