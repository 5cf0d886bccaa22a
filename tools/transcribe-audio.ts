/** Writes down what is said in a recording, with ffmpeg and whisper.cpp in the sandbox. */
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { z } from "zod"
import { text } from "../src/wire/operations/fields.ts"
import { runProgram } from "./programs.ts"
import { defineTool } from "./tool.ts"

const MODELS = "/models/whisper"

export const transcribeAudio = defineTool({
  description: "Write down what is said in a recording (any format that ffmpeg reads).",
  input: z.object({
    file_path: text("Path of the recording"),
    model: z
      .string({ error: "must be text" })
      .regex(/^[\w.-]{1,64}$/, "must be the name of a model, such as base or large")
      .describe("Which speech model; any that is installed when absent")
      .optional(),
    language: z
      .string({ error: "must be text" })
      .regex(/^[a-z]{2,3}$|^auto$/, "must be a language's code, such as en, or auto")
      .describe("The language that is spoken; found out when absent")
      .optional(),
  }),
  run: async ({ file_path, model, language = "auto" }, { abort: signal, directory, metadata }) => {
    const source = resolve(directory, file_path)
    if (!(await stat(source).catch(() => undefined))?.isFile()) {
      throw new Error(`There is no file ${file_path}.`)
    }
    const modelFile = await findModel(process.env["WHISPER_MODELS"] ?? MODELS, model)
    const folder = await mkdtemp(join(tmpdir(), "transcript-"))
    const missing = "Tell the user that speech cannot be read here."
    try {
      const wave = join(folder, "sound.wav")
      metadata({ title: "Reading the recording" })
      const form = ["-vn", "-ar", "16000", "-ac", "1", "-c:a", "pcm_s16le", wave]
      await runProgram({
        program: "ffmpeg",
        args: ["-nostdin", "-loglevel", "error", "-y", "-i", source, ...form],
        signal,
        timeoutMs: 120_000,
        missing,
      })
      metadata({ title: "Writing down what is said" })
      const output = join(folder, "said")
      const what = ["--model", modelFile, "--file", wave, "--language", language]
      const how = ["--output-txt", "--output-file", output, "--no-timestamps", "--no-prints"]
      await runProgram({
        program: "whisper-cli",
        args: [...what, ...how],
        signal,
        timeoutMs: 1_800_000,
        missing,
      })
      const said = (await readFile(`${output}.txt`, "utf8").catch(() => "")).trim()
      if (said === "") throw new Error("Nothing is said in this recording.")
      return said
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
})

const findModel = async (folder: string, wanted: string | undefined): Promise<string> => {
  const files = (await readdir(folder).catch(() => [])).filter((name) =>
    /^ggml-.*\.bin$/.test(name),
  )
  const fits = (name: string) => wanted === undefined || name.startsWith(`ggml-${wanted}`)
  const found = files.toSorted().find(fits)
  if (found !== undefined) return join(folder, found)
  const names = files.map((name) => name.slice("ggml-".length, -".bin".length))
  throw new Error(
    names.length === 0
      ? "No speech model is installed in this sandbox. Tell the user."
      : `There is no speech model ${wanted}; there is ${names.toSorted().join(", ")}.`,
  )
}
