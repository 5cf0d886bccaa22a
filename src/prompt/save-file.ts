/** Attachments in the workspace, where the agent's tools find them and git does not. */
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"

export type SaveFile = (
  promptId: string,
  file: { readonly name: string; readonly bytes: Uint8Array },
) => Promise<string>

const FOLDER = ".sandpiper"

/** Answers with the path below the workspace, as a tool is to be given it. */
export const createSaveFile =
  (workDir: string): SaveFile =>
  async (promptId, { name, bytes }) => {
    const folder = join(
      FOLDER,
      "attachments",
      promptId.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(-64),
    )
    await mkdir(join(workDir, folder), { recursive: true })
    // A file that ignores its own folder: the repository's own .gitignore is not ours to change.
    await writeFile(join(workDir, FOLDER, ".gitignore"), "*\n")
    for (let copy = 1; ; copy += 1) {
      const path = join(folder, copy === 1 ? name : `${copy}-${name}`)
      try {
        await writeFile(join(workDir, path), bytes, { flag: "wx" })
        return path
      } catch (error) {
        if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error
      }
    }
  }
