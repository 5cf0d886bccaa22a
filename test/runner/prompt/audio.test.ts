/** Speech to text, with stand-ins that accept the command lines of ffmpeg and whisper-cli. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { commandOf, descendantsOf, listProcesses } from "../../../src/runner/host/processes.ts"
import { createTranscribe } from "../../../src/runner/prompt/audio.ts"
import { untilEqual } from "../../kit/until-true.ts"

const programs = join(import.meta.dir, "../../kit/programs")
const path = [programs, process.env["PATH"]].join(delimiter)
const bytes = (text: string) => new TextEncoder().encode(text)
const signal = () => new AbortController().signal

/** The error message, or the unexpected transcript. */
const failing = (running: Promise<string>): Promise<string> =>
  running.then(
    (transcript) => `it did not fail: ${transcript}`,
    (error: Error) => error.message,
  )

let modelsDir: string
beforeAll(async () => {
  modelsDir = await mkdtemp(join(tmpdir(), "models-"))
  await Bun.write(join(modelsDir, "ggml-base.en.bin"), "a model")
})
afterAll(() => rm(modelsDir, { recursive: true }))

/** The programs of this process that hang. */
const hanging = () =>
  descendantsOf(process.pid, listProcesses())
    .filter(({ isZombie }) => !isZombie)
    .map(({ pid }) => commandOf(pid))
    .filter((command) => command.startsWith("sleep 600"))

const leftovers = async () =>
  (await readdir(tmpdir())).filter((name) => name.startsWith("sandpiper-audio-"))

describe("voice messages", () => {
  test("a voice message is transcribed", async () => {
    const transcribe = createTranscribe({ path, modelsDir })
    expect(await transcribe(bytes("please fix\nthe build"), signal())).toBe("please fix the build")
  })

  test("ffmpeg unpacks two hours at most", async () => {
    const folder = await mkdtemp(join(tmpdir(), "audio-arguments-"))
    const noted = join(folder, "arguments")
    const script = `#!/bin/sh\necho "$@" > ${noted}\nexec ${join(programs, "ffmpeg")} "$@"\n`
    await writeFile(join(folder, "ffmpeg"), script, { mode: 0o755 })
    const transcribe = createTranscribe({ path: [folder, path].join(delimiter), modelsDir })
    expect(await transcribe(bytes("hello"), signal())).toBe("hello")
    expect(await Bun.file(noted).text()).toMatch(/ -i \S+ .*-t 7200 .*\.wav$/m)
    await rm(folder, { recursive: true })
  })

  test("a file without sound is recognized by ffmpeg's output file, not by its exit code", async () => {
    const transcribe = createTranscribe({ path, modelsDir })
    expect(await failing(transcribe(bytes("silence"), signal()))).toContain("it contains no sound")
  })

  test("a voice message without speech is reported as such", async () => {
    const transcribe = createTranscribe({ path, modelsDir })
    expect(await failing(transcribe(bytes("noise"), signal()))).toContain("it contains no speech")
  })

  test("a file that is not audio fails with ffmpeg's error message", async () => {
    const transcribe = createTranscribe({ path, modelsDir })
    expect(await failing(transcribe(bytes("garbage"), signal()))).toContain("Invalid data found")
  })

  test("a transcription that takes too long fails, and its process is killed", async () => {
    const transcribe = createTranscribe({ path, modelsDir, convertMs: 200 })
    const failed = await transcribe(bytes("hang"), signal()).catch((error: Error) => error.message)
    expect(failed).toBe("ffmpeg took longer than 0 s")
    await untilEqual(hanging, [], "end of the program that hangs")
    expect(hanging()).toEqual([])
  })

  test("an aborted transcription stops at once", async () => {
    const abort = new AbortController()
    const transcribe = createTranscribe({ path, modelsDir })
    const running = transcribe(bytes("hang"), abort.signal).catch((error: Error) => error.message)
    abort.abort()
    expect(await running).toBe("ffmpeg was stopped")
  })

  test("transcriptions leave no temporary files", async () => {
    expect(await leftovers()).toEqual([])
  })
})

describe("missing programs and models", () => {
  test("a missing ffmpeg is named in the error", async () => {
    const transcribe = createTranscribe({ path: "/nowhere", modelsDir })
    expect(await failing(transcribe(bytes("hello"), signal()))).toContain("ffmpeg is not installed")
  })

  test("a missing speech model is named in the error", async () => {
    const transcribe = createTranscribe({ path, modelsDir: "/nowhere" })
    expect(await failing(transcribe(bytes("hello"), signal()))).toContain(
      "no speech model is installed in /nowhere",
    )
  })
})

test("these tests run with the stand-in whisper-cli, not with an installed one", () => {
  expect(Bun.which("whisper-cli", { PATH: path })).toBe(join(programs, "whisper-cli"))
})
