/** Saves attachments in the workspace, where the agent's tools can read them and git ignores them. */
import { lstat, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { AttachmentError } from "./fetch-file.ts"

export type SaveFile = (
  promptId: string,
  file: { readonly name: string; readonly bytes: Uint8Array },
) => Promise<string>

const FOLDER = ".sandpiper"

/** Returns the path relative to the workspace. */
export const createSaveFile =
  (workDir: string): SaveFile =>
  async (promptId, { name, bytes }) => {
    const promptFolder = promptId.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(-64)
    const folder = await makeFolder(workDir, [FOLDER, "attachments", promptFolder])
    // This .gitignore ignores its own folder; the repository's .gitignore is not changed.
    await writeNew(join(workDir, FOLDER, ".gitignore"), "*\n")
    for (let copy = 1; ; copy += 1) {
      const path = join(folder, copy === 1 ? name : `${copy}-${name}`)
      if (await writeNew(join(workDir, path), bytes)) return path
    }
  }

/** Refuses symbolic links: the agent can write in the workspace and could create one that leads out of it. */
const makeFolder = async (workDir: string, names: readonly string[]): Promise<string> => {
  let folder = ""
  for (const name of names) {
    folder = join(folder, name)
    const path = join(workDir, folder)
    await mkdir(path).catch(unlessExists)
    if (!(await lstat(path)).isDirectory()) {
      throw new AttachmentError(`it cannot be saved: ${folder} is not a directory`)
    }
  }
  return folder
}

/** False when the path exists already; a symbolic link is not followed. */
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
