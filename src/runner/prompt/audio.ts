/** Speech to text: ffmpeg converts the file to WAV, whisper.cpp transcribes it. Both have a deadline. */
import { chown, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type CommandResult, runCommand } from "../../lib/run-command.ts"
import { readRegularFile } from "../../lib/untrusted-files.ts"
import { AttachmentError } from "./fetch-file.ts"

export interface AudioOptions {
  /** The PATH in which ffmpeg and whisper-cli are searched. */
  readonly path: string
  /** The directory of whisper's models, `ggml-*.bin`. */
  readonly modelsDir: string
  /** The user of both programs; undefined for the runner's own. They parse files of strangers. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  readonly convertMs?: number
  readonly transcribeMs?: number
}

const CONVERT_MS = 60_000
const TRANSCRIBE_MS = 120_000
const TRANSCRIPT_BYTES = 1024 * 1024
/** Silence is packed a thousand times: days of it are a small file, and would fill the disk when they are unpacked. */
const LONGEST_SECONDS = 7200
/** Bytes of the header and a tenth of a second of 16 kHz, 16 bit, mono. */
const SHORTEST_WAVE = 44 + 3200

/** Accepted containers. Playlist formats are excluded: through them ffmpeg would read any file of this machine. */
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
      if (options.user) await giveFolder(folder, source, options.user)
      await convert(options, source, wave, signal)
      return await transcribe(options, wave, join(folder, "transcript"), signal)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }

/** The folder is new, private and still empty but for the source: nothing in it can be a link. */
const giveFolder = async (
  folder: string,
  source: string,
  { uid, gid }: NonNullable<AudioOptions["user"]>,
): Promise<void> => {
  await chown(source, uid, gid)
  await chown(folder, uid, gid)
}

const convert = async (
  options: AudioOptions,
  source: string,
  wave: string,
  signal: AbortSignal,
): Promise<void> => {
  const general = ["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]
  const format = [
    "-vn",
    "-t",
    String(LONGEST_SECONDS),
    "-ar",
    "16000",
    "-ac",
    "1",
    "-c:a",
    "pcm_s16le",
  ]
  const allowed = ["-protocol_whitelist", "file", "-format_whitelist", CONTAINERS]
  const args = [...general, ...allowed, "-i", source, ...format, wave]
  await run("ffmpeg", args, options, signal)
  // ffmpeg exits with 0 on a file without sound, and writes only a header or nothing.
  const size = await stat(wave).then(
    (file) => file.size,
    () => 0,
  )
  if (size < SHORTEST_WAVE) throw new AttachmentError("it contains no sound")
}

const transcribe = async (
  options: AudioOptions,
  wave: string,
  output: string,
  signal: AbortSignal,
): Promise<string> => {
  const model = await findModel(options.modelsDir)
  const input = ["--model", model, "--file", wave]
  const format = ["--output-txt", "--output-file", output, "--no-timestamps", "--no-prints"]
  await run("whisper-cli", [...input, ...format], options, signal)
  // The program's user could have put a link or a FIFO there.
  const bytes = await readRegularFile(`${output}.txt`, {
    maxBytes: TRANSCRIPT_BYTES,
    reader: options.user,
  }).catch(() => Buffer.alloc(0))
  const text = bytes.toString("utf8")
  // For sound without speech whisper writes a note in brackets instead of text.
  const transcript = text.replaceAll(/\[[A-Z_ ]+\]|\([a-z ]+\)/g, "").trim()
  if (transcript === "") throw new AttachmentError("it contains no speech")
  return transcript.replaceAll(/\s*\n\s*/g, " ")
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
  { path, user, convertMs = CONVERT_MS, transcribeMs = TRANSCRIBE_MS }: AudioOptions,
  signal: AbortSignal,
): Promise<void> => {
  const timeoutMs = program === "ffmpeg" ? convertMs : transcribeMs
  const binary = Bun.which(program, { PATH: path })
  if (binary === null) throw new AttachmentError(`${program} is not installed`)
  const options = { env: { PATH: path }, cwd: "/", timeoutMs, signal, user }
  const result = await runCommand(binary, args, options).catch((cause: unknown) => {
    throw new AttachmentError(`${program} could not be run`, { cause })
  })
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
