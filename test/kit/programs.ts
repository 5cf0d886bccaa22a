/** Fakes of the programs that tools run in the image, and sample files for them. */
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"

/** One transparent pixel. */
export const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
)

/** Returns the folder to put on PATH. */
export const writePrograms = async (root: string): Promise<string> => {
  const bin = join(root, "bin")
  const models = join(root, "models")
  await Promise.all([mkdir(bin), mkdir(models)])
  const program = (name: string, script: string) =>
    writeFile(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  await writeFile(join(root, "page.png"), PNG)
  await writeFile(join(models, "ggml-base.bin"), "")
  await program(
    "agent-browser",
    `case "$1" in
  screenshot) cp ${root}/page.png "$2" ;;
  batch) cat > ${root}/browser-stdin; echo "$*" > ${root}/browser-args ;;
esac`,
  )
  // The last argument is the file to write.
  await program("ffmpeg", 'for last; do :; done; echo sound > "$last"')
  await program(
    "whisper-cli",
    `while [ $# -gt 0 ]; do
  [ "$1" = --output-file ] && echo "Hello from the recording." > "$2.txt"
  shift
done`,
  )
  return bin
}
