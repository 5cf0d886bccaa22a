/** Speech to text, by stand-ins that speak the command lines of ffmpeg and whisper-cli; the real ones are tried when installed. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { createTranscribe } from "../../../src/runner/prompt/audio.ts"

const programs = join(import.meta.dir, "../../kit/programs")
const path = [programs, process.env["PATH"]].join(delimiter)
const bytes = (text: string) => new TextEncoder().encode(text)
const signal = () => new AbortController().signal

/** Why it failed. */
const failing = (running: Promise<string>): Promise<string> =>
  running.then(
    (said) => `it did not fail: ${said}`,
    (error: Error) => error.message,
  )

let modelsDir: string
beforeAll(async () => {
  modelsDir = await mkdtemp(join(tmpdir(), "models-"))
  await Bun.write(join(modelsDir, "ggml-base.en.bin"), "a model")
})
afterAll(() => rm(modelsDir, { recursive: true }))

const leftovers = async () =>
  (await readdir(tmpdir())).filter((name) => name.startsWith("sandpiper-audio-"))

describe("a voice message", () => {
  test("is written down", async () => {
    const transcribe = createTranscribe({ path, modelsDir })
    expect(await transcribe(bytes("please fix\nthe build"), signal())).toBe("please fix the build")
  })

  test("without sound is known by what came out, not by the exit code", async () => {
    const transcribe = createTranscribe({ path, modelsDir })
    expect(await failing(transcribe(bytes("silence"), signal()))).toContain(
      "there is no sound in it",
    )
  })

  test("in which nobody speaks says so", async () => {
    const transcribe = createTranscribe({ path, modelsDir })
    expect(await failing(transcribe(bytes("noise"), signal()))).toContain("nothing is said in it")
  })

  test("that is no sound at all fails with ffmpeg's words", async () => {
    const transcribe = createTranscribe({ path, modelsDir })
    expect(await failing(transcribe(bytes("garbage"), signal()))).toContain("Invalid data found")
  })

  test("that takes too long is given up, and the program with it", async () => {
    const transcribe = createTranscribe({ path, modelsDir, convertMs: 200 })
    const started = Date.now()
    const failed = await transcribe(bytes("hang"), signal()).catch((error: Error) => error.message)
    expect(failed).toBe("ffmpeg took longer than 0 s")
    expect(Date.now() - started).toBeLessThan(5000)
  })

  test("that is aborted stops at once", async () => {
    const abort = new AbortController()
    const transcribe = createTranscribe({ path, modelsDir })
    const running = transcribe(bytes("hang"), abort.signal).catch((error: Error) => error.message)
    abort.abort()
    expect(await running).toBe("ffmpeg was stopped")
  })

  test("leaves nothing behind", async () => {
    expect(await leftovers()).toEqual([])
  })
})

describe("what is not installed is named", () => {
  test("ffmpeg", async () => {
    const transcribe = createTranscribe({ path: "/nowhere", modelsDir })
    expect(await failing(transcribe(bytes("hello"), signal()))).toContain("ffmpeg is not installed")
  })

  test("a model", async () => {
    const transcribe = createTranscribe({ path, modelsDir: "/nowhere" })
    expect(await failing(transcribe(bytes("hello"), signal()))).toContain(
      "no speech model is installed in /nowhere",
    )
  })
})

test("these tests ran with stand-ins: whisper-cli is not needed for them", () => {
  expect(Bun.which("whisper-cli", { PATH: path })).toBe(join(programs, "whisper-cli"))
})
