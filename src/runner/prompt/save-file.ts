/** Saves attachments in the workspace, where the agent's tools can read them and git ignores them. */
import { realpath, writeFile } from "node:fs/promises"
import { join, relative, sep } from "node:path"
import {
  type FileOwner,
  type HeldDirectory,
  holdBelow,
  unlessExists,
  UntrustedFile,
} from "../../lib/untrusted-files.ts"
import { AttachmentError } from "./fetch-file.ts"

export type SaveFile = (
  promptId: string,
  file: { readonly name: string; readonly bytes: Uint8Array },
) => Promise<string>

const FOLDER = ".sandpiper"

export interface SaveOptions {
  /** The directory that `workDir` is in, or `workDir` itself. Only its own path may contain links. */
  readonly root?: string
  /** Gets the new folders, if it is not the runner's own user. */
  readonly owner?: FileOwner | undefined
}

/** Returns the path relative to the working directory. */
export const createSaveFile =
  (workDir: string, { root = workDir, owner }: SaveOptions = {}): SaveFile =>
  async (promptId, { name, bytes }) => {
    const place: Place = {
      root: await realpath(root),
      names: relative(root, workDir).split(sep).filter(Boolean),
      owner,
    }
    const promptFolder = promptId.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(-64)
    // This .gitignore ignores its own folder; the repository's .gitignore is not changed.
    await within(place, [FOLDER], (folder) => writeNew(folder, ".gitignore", "*\n"))
    const names = [FOLDER, "attachments", promptFolder]
    return within(place, names, async (folder) => {
      for (let copy = 1; ; copy += 1) {
        const saved = copy === 1 ? name : `${copy}-${name}`
        if (await writeNew(folder, saved, bytes)) return join(...names, saved)
      }
    })
  }

/**
 * The agent can write in the workspace and swap a folder for a link at any moment: files are created from the open
 * folder and never by its path.
 */
const within = async <Result>(
  place: Place,
  names: readonly string[],
  use: (folder: HeldDirectory) => Promise<Result>,
): Promise<Result> => {
  const folder = await hold(place, names).catch((cause: unknown) => {
    if (!(cause instanceof UntrustedFile)) throw cause
    throw new AttachmentError(`it cannot be saved: ${join(...names)} is not a directory`, { cause })
  })
  try {
    return await use(folder)
  } finally {
    await folder.close()
  }
}

interface Place {
  readonly root: string
  /** The names from `root` to the working directory. */
  readonly names: readonly string[]
  readonly owner: FileOwner | undefined
}

const hold = ({ root, names, owner }: Place, more: readonly string[]): Promise<HeldDirectory> =>
  holdBelow(root, [...names, ...more], owner)

/** False when the name exists already; a symbolic link is not followed. */
const writeNew = (
  folder: HeldDirectory,
  name: string,
  contents: string | Uint8Array,
): Promise<boolean> =>
  writeFile(folder.entry(name), contents, { flag: "wx" }).then(() => true, unlessExists)
