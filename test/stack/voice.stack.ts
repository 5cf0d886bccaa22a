/** Voice messages through the real ffmpeg: what sound comes in, and what is no sound. Whisper is stood in for. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { createTranscribe } from "../../src/runner/prompt/audio.ts"

/** Tells how many seconds of sound it was given. */
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

/** Two seconds of a tone in a file of that kind. */
const tone = async (kind: string): Promise<string> => {
  const file = join(folder, `tone.${kind}`)
  const source = ["-f", "lavfi", "-i", "sine=frequency=440:duration=2"]
  await Bun.$`ffmpeg -nostdin -loglevel error -y ${source} ${file}`.quiet()
  return file
}

const heard = (bytes: Uint8Array) => transcribe(bytes, new AbortController().signal)

test.each(["ogg", "opus", "mp3", "m4a", "mp4", "webm", "wav", "flac", "aac", "caf"])(
  "a voice message that is %s is heard",
  async (kind) => {
    expect(await heard(await Bun.file(await tone(kind)).bytes())).toBe("about 2 s")
  },
)

test("a playlist has ffmpeg read no other file", async () => {
  const lines = [
    "#EXTM3U",
    "#EXT-X-MEDIA-SEQUENCE:0",
    "#EXTINF:2.0,",
    `file://${await tone("aac")}`,
  ]
  const bytes = new TextEncoder().encode([...lines, "#EXT-X-ENDLIST", ""].join("\n"))
  const failed = await heard(bytes).catch((error: Error) => error.message)
  expect(failed).toContain("ffmpeg failed")
})
