/** Transcribes a recording with ffmpeg and whisper.cpp in the sandbox. */
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { z } from "zod"
import { text } from "../src/wire/operations/fields.ts"
import { runProgram } from "./programs.ts"
import { defineTool } from "./tool.ts"

const DEFAULT_MODELS_FOLDER = "/models/whisper"

export const transcribeAudio = defineTool({
  description: "Transcribe a recording in any format that ffmpeg reads.",
  input: z.object({
    file_path: text("Path of the recording"),
    model: z
      .string({ error: "must be text" })
      .regex(/^[\w.-]{1,64}$/, "must be the name of a model, such as base or large")
      .describe("Speech model; default: any installed one")
      .optional(),
    language: z
      .string({ error: "must be text" })
      .regex(/^[a-z]{2,3}$|^auto$/, "must be a language code, such as en, or auto")
      .describe("Language code; default: auto")
      .optional(),
  }),
  run: async ({ file_path, model, language = "auto" }, { abort: signal, directory, metadata }) => {
    const source = resolve(directory, file_path)
    if (!(await stat(source).catch(() => undefined))?.isFile()) {
      throw new Error(`There is no file ${file_path}.`)
    }
    const modelFile = await findModel(process.env["WHISPER_MODELS"] ?? DEFAULT_MODELS_FOLDER, model)
    const folder = await mkdtemp(join(tmpdir(), "transcript-"))
    const ifMissing = "Tell the user that this sandbox cannot transcribe audio."
    try {
      const wave = join(folder, "sound.wav")
      metadata({ title: "Converting the recording" })
      const outputOptions = ["-vn", "-ar", "16000", "-ac", "1", "-c:a", "pcm_s16le", wave]
      await runProgram({
        program: "ffmpeg",
        args: ["-nostdin", "-loglevel", "error", "-y", "-i", source, ...outputOptions],
        signal,
        timeoutMs: 120_000,
        ifMissing,
      })
      metadata({ title: "Transcribing" })
      const output = join(folder, "transcript")
      const inputOptions = ["--model", modelFile, "--file", wave, "--language", language]
      const transcriptOptions = [
        "--output-txt",
        "--output-file",
        output,
        "--no-timestamps",
        "--no-prints",
      ]
      await runProgram({
        program: "whisper-cli",
        args: [...inputOptions, ...transcriptOptions],
        signal,
        timeoutMs: 1_800_000,
        ifMissing,
      })
      const transcript = (await readFile(`${output}.txt`, "utf8").catch(() => "")).trim()
      if (transcript === "") throw new Error("The recording contains no speech.")
      return transcript
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
})

const findModel = async (folder: string, wanted: string | undefined): Promise<string> => {
  const files = (await readdir(folder).catch(() => [])).filter((name) =>
    /^ggml-.*\.bin$/.test(name),
  )
  const matches = (name: string) => wanted === undefined || name.startsWith(`ggml-${wanted}`)
  const found = files.toSorted().find(matches)
  if (found !== undefined) return join(folder, found)
  const names = files.map((name) => name.slice("ggml-".length, -".bin".length))
  throw new Error(
    names.length === 0
      ? "No speech model is installed in this sandbox. Tell the user."
      : `There is no speech model ${wanted}. Installed: ${names.toSorted().join(", ")}.`,
  )
}
