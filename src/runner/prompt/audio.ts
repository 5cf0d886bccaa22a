/** Speech to text: ffmpeg makes a wave file, whisper.cpp writes down what is said in it; both have a deadline. */
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type CommandResult, runCommand } from "../../lib/run-command.ts"
import { AttachmentError } from "./fetch-file.ts"

export interface AudioOptions {
  /** Where ffmpeg and whisper-cli are looked for. */
  readonly path: string
  /** Holds whisper's models, `ggml-*.bin`. */
  readonly modelsDir: string
  readonly convertMs?: number
  readonly transcribeMs?: number
}

const CONVERT_MS = 60_000
const TRANSCRIBE_MS = 120_000
/** A tenth of a second of 16 kHz, 16 bit, one channel, and the header. */
const SHORTEST_WAVE = 44 + 3200

/** What sound comes in. Playlists are left out: they would have ffmpeg read any file of this machine. */
const CONTAINERS =
  "3gp,aac,aiff,amr,asf,au,avi,caf,flac,m4a,matroska,mov,mp3,mp4,mpeg,mpegts,ogg,w64,wav,webm"

export const createTranscribe =
  (options: AudioOptions) =>
  async (bytes: Uint8Array, signal: AbortSignal): Promise<string> => {
    const folder = await mkdtemp(join(tmpdir(), "sandpiper-audio-"))
    try {
      const source = join(folder, "source")
      const wave = join(folder, "sound.wav")
      await writeFile(source, bytes)
      await convert(options, source, wave, signal)
      return await transcribe(options, wave, join(folder, "said"), signal)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }

const convert = async (
  options: AudioOptions,
  source: string,
  wave: string,
  signal: AbortSignal,
): Promise<void> => {
  const quiet = ["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]
  const form = ["-vn", "-ar", "16000", "-ac", "1", "-c:a", "pcm_s16le"]
  const only = ["-protocol_whitelist", "file", "-format_whitelist", CONTAINERS]
  const args = [...quiet, ...only, "-i", source, ...form, wave]
  await run("ffmpeg", args, options, signal)
  // ffmpeg ends well on a file without sound, and leaves a header or nothing at all.
  const size = await stat(wave).then(
    (file) => file.size,
    () => 0,
  )
  if (size < SHORTEST_WAVE) throw new AttachmentError("there is no sound in it")
}

const transcribe = async (
  options: AudioOptions,
  wave: string,
  output: string,
  signal: AbortSignal,
): Promise<string> => {
  const model = await findModel(options.modelsDir)
  const what = ["--model", model, "--file", wave]
  const how = ["--output-txt", "--output-file", output, "--no-timestamps", "--no-prints"]
  await run("whisper-cli", [...what, ...how], options, signal)
  const text = await readFile(`${output}.txt`, "utf8").catch(() => "")
  // Where nobody speaks whisper writes a note in brackets instead of words.
  const said = text.replaceAll(/\[[A-Z_ ]+\]|\([a-z ]+\)/g, "").trim()
  if (said === "") throw new AttachmentError("nothing is said in it")
  return said.replaceAll(/\s*\n\s*/g, " ")
}

const findModel = async (folder: string): Promise<string> => {
  const files = await readdir(folder).catch(() => [])
  const model = files.filter((name) => /^ggml-.*\.bin$/.test(name)).toSorted()[0]
  if (model === undefined) throw new AttachmentError(`no speech model is installed in ${folder}`)
  return join(folder, model)
}

const run = async (
  program: "ffmpeg" | "whisper-cli",
  args: readonly string[],
  { path, convertMs = CONVERT_MS, transcribeMs = TRANSCRIBE_MS }: AudioOptions,
  signal: AbortSignal,
): Promise<void> => {
  const timeoutMs = program === "ffmpeg" ? convertMs : transcribeMs
  const binary = Bun.which(program, { PATH: path })
  if (binary === null) throw new AttachmentError(`${program} is not installed`)
  const result = await runCommand(binary, args, { env: { PATH: path }, timeoutMs, signal }).catch(
    (cause: unknown) => {
      throw new AttachmentError(`${program} could not be run`, { cause })
    },
  )
  const failure = failureOf(program, timeoutMs, result)
  if (failure !== undefined) throw new AttachmentError(failure)
}

const failureOf = (
  program: string,
  timeoutMs: number,
  { exitCode, timedOut, aborted, stderr }: CommandResult,
): string | undefined => {
  if (timedOut) return `${program} took longer than ${Math.round(timeoutMs / 1000)} s`
  if (aborted) return `${program} was stopped`
  if (exitCode === 0) return undefined
  const last = stderr.trim().split("\n").at(-1) ?? ""
  return `${program} failed${last === "" ? "" : `: ${last.slice(-200)}`}`
}
