/** Attachments in the workspace, where the agent's tools find them and git does not. */
import { lstat, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { AttachmentError } from "./fetch-file.ts"

export type SaveFile = (
  promptId: string,
  file: { readonly name: string; readonly bytes: Uint8Array },
) => Promise<string>

const FOLDER = ".sandpiper"

/** Answers with the path below the workspace, as a tool is to be given it. */
export const createSaveFile =
  (workDir: string): SaveFile =>
  async (promptId, { name, bytes }) => {
    const own = promptId.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(-64)
    const folder = await makeFolder(workDir, [FOLDER, "attachments", own])
    // A file that ignores its own folder: the repository's own .gitignore is not ours to change.
    await writeNew(join(workDir, FOLDER, ".gitignore"), "*\n")
    for (let copy = 1; ; copy += 1) {
      const path = join(folder, copy === 1 ? name : `${copy}-${name}`)
      if (await writeNew(join(workDir, path), bytes)) return path
    }
  }

/** The agent writes in the workspace too, and may have put a link in the way that leads out of it. */
const makeFolder = async (workDir: string, names: readonly string[]): Promise<string> => {
  let folder = ""
  for (const name of names) {
    folder = join(folder, name)
    const path = join(workDir, folder)
    await mkdir(path).catch(unlessExists)
    if (!(await lstat(path)).isDirectory()) {
      throw new AttachmentError(`it cannot be saved, ${folder} is in the way`)
    }
  }
  return folder
}

/** False when something is there already; a link there is not followed. */
const writeNew = async (path: string, contents: string | Uint8Array): Promise<boolean> => {
  try {
    await writeFile(path, contents, { flag: "wx" })
    return true
  } catch (error) {
    unlessExists(error)
    return false
  }
}

const unlessExists = (error: unknown): void => {
  if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error
}
