/** Replaces a file as a whole: a reader finds the old text or the new one, also if several processes write at once. */
import { renameSync, rmSync, writeFileSync } from "node:fs"

/** Only its owner can read the file, unless another mode is given. */
export const replaceFile = (path: string, text: string, mode = 0o600): void => {
  const draft = `${path}.${crypto.randomUUID()}.new`
  try {
    writeFileSync(draft, text, { mode })
    renameSync(draft, path)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}
