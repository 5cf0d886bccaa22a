/** Voice messages through the real ffmpeg with a fake whisper: audio formats, and a playlist instead of audio. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { createTranscribe } from "../../src/runner/prompt/audio.ts"

/** A fake whisper whose transcript is the length of the sound in seconds. */
const whisper = `#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --file) wave="$2" ;; --output-file) output="$2" ;; esac
  shift
done
echo "about $(( ($(stat -c %s "$wave") + 8000) / 32000 )) s" > "$output.txt"
`

let folder: string
let transcribe: ReturnType<typeof createTranscribe>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "voice-"))
  const program = join(folder, "whisper-cli")
  await Bun.write(program, whisper)
  await chmod(program, 0o755)
  await Bun.write(join(folder, "ggml-base.en.bin"), "a model")
  const path = [folder, process.env["PATH"]].join(delimiter)
  transcribe = createTranscribe({ path, modelsDir: folder })
})
afterAll(() => rm(folder, { recursive: true }))

/** Writes a file of the given format with a tone of two seconds. */
const tone = async (kind: string): Promise<string> => {
  const file = join(folder, `tone.${kind}`)
  const source = ["-f", "lavfi", "-i", "sine=frequency=440:duration=2"]
  await Bun.$`ffmpeg -nostdin -loglevel error -y ${source} ${file}`.quiet()
  return file
}

const transcriptOf = (bytes: Uint8Array) => transcribe(bytes, new AbortController().signal)

test.each(["ogg", "opus", "mp3", "m4a", "mp4", "webm", "wav", "flac", "aac", "caf"])(
  "a voice message in %s format is transcribed",
  async (kind) => {
    expect(await transcriptOf(await Bun.file(await tone(kind)).bytes())).toBe("about 2 s")
  },
)

test("a playlist does not make ffmpeg read another file", async () => {
  const lines = [
    "#EXTM3U",
    "#EXT-X-MEDIA-SEQUENCE:0",
    "#EXTINF:2.0,",
    `file://${await tone("aac")}`,
  ]
  const bytes = new TextEncoder().encode([...lines, "#EXT-X-ENDLIST", ""].join("\n"))
  const failed = await transcriptOf(bytes).catch((error: Error) => error.message)
  expect(failed).toContain("ffmpeg failed")
})
