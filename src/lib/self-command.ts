/** The command that starts this program again: the binary alone, or the runtime with the source. */
import { join } from "node:path"

export const selfCommand = (): readonly string[] =>
  Bun.main.startsWith("/$bunfs/")
    ? [process.execPath]
    : [process.execPath, join(import.meta.dir, "../main.ts")]
