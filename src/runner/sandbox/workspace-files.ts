/** Reads and writes files of the runner in the workspace only, even where symbolic links lead out of it. */
import { constants } from "node:fs"
import { link, open, realpath, rename, rm } from "node:fs/promises"
import { basename, dirname, resolve, sep } from "node:path"
import {
  type FileOwner,
  type HeldDirectory,
  holdBelow,
  isBelow,
  readRegularFile,
  UntrustedFile,
} from "../../lib/untrusted-files.ts"
import { SecretsError } from "./secrets-error.ts"
import { errorCode } from "../../lib/error-code.ts"

export type Owner = FileOwner

/** Far above any template, and small enough to hold in memory. */
const TEMPLATE_BYTES = 1024 * 1024

/** The real path of an existing file or folder of the workspace. */
export const insideWorkspace = async (workDir: string, path: string): Promise<string> => {
  const root = await realpath(workDir)
  const real = await realpath(resolve(root, path)).catch(() => undefined)
  if (real === undefined) throw new SecretsError("not-found", `there is no ${path}`)
  if (!isBelow(root, real)) throw outside(path)
  return real
}

/** The agent can replace the file between the check of its path and its opening: the open file is checked again. */
export const readTemplate = async (
  workDir: string,
  path: string,
  reader: Owner | undefined,
): Promise<string> => {
  const root = await realpath(workDir)
  const real = await insideWorkspace(workDir, path)
  const limits = { root, reader, maxBytes: TEMPLATE_BYTES }
  const bytes = await readRegularFile(real, limits).catch((cause: unknown) => {
    const why = cause instanceof UntrustedFile ? `: ${cause.message}` : ""
    throw new SecretsError("bad-input", `templatePath: ${path} is not a readable file${why}`, {
      cause,
    })
  })
  return bytes.toString("utf8")
}

/** Writes a file atomically (a temporary file is renamed), readable only by its owner. */
export const writeSecretFile = (
  workDir: string,
  path: string,
  text: string,
  owner: Owner | undefined,
): Promise<void> => writeBelow({ workDir, path, text, owner, mode: 0o600, place: rename })

/** Creates a file that must not exist yet. */
export const writeNewFile = (
  workDir: string,
  path: string,
  text: string,
  owner: Owner | undefined,
): Promise<void> =>
  writeBelow({
    workDir,
    path,
    text,
    owner,
    mode: 0o644,
    place: async (draft, target) => {
      await link(draft, target)
      await rm(draft)
    },
  })

/** Rejects if a file of this path would lie outside the workspace. */
export const checkInside = async (workDir: string, path: string): Promise<void> => {
  const root = await realpath(workDir)
  const requested = resolve(root, path)
  if (!isBelow(root, requested) || requested === root) throw outside(path)
  await resolvedFolder(root, dirname(requested), path)
}

interface FileToWrite {
  readonly workDir: string
  readonly path: string
  readonly text: string
  readonly owner: Owner | undefined
  readonly mode: number
  /** Moves the complete draft to its name. */
  readonly place: (draft: string, target: string) => Promise<void>
}

const writeBelow = async ({ workDir, path, text, owner, mode, place }: FileToWrite) => {
  const root = await realpath(workDir)
  const requested = resolve(root, path)
  if (!isBelow(root, requested) || requested === root) throw outside(path)
  const folder = await holdFolder(root, dirname(requested), path, owner)
  const target = folder.entry(basename(requested))
  const draft = folder.entry(`.${basename(requested)}.${crypto.randomUUID()}`)
  try {
    const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants
    const file = await open(draft, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, mode)
    try {
      await file.chmod(mode)
      if (owner) await file.chown(owner.uid, owner.gid)
      await file.writeFile(text)
    } finally {
      await file.close()
    }
    await place(draft, target)
  } catch (error) {
    await rm(draft, { force: true })
    const exists = errorCode(error) === "EEXIST"
    const why = exists ? "exists already" : "cannot be written"
    throw new SecretsError("bad-input", `outputPath: ${path} ${why}`, { cause: error })
  } finally {
    await folder.close()
  }
}

/** Holds the folder, and creates what is missing of it. Links inside the workspace are resolved before. */
const holdFolder = async (
  root: string,
  folder: string,
  path: string,
  owner: Owner | undefined,
): Promise<HeldDirectory> => {
  const names = (await resolvedFolder(root, folder, path)).slice(root.length).split(sep)
  return holdBelow(root, names.filter(Boolean), owner).catch((cause: unknown) => {
    if (cause instanceof UntrustedFile) throw outside(path)
    throw new SecretsError("bad-input", `outputPath: ${path} cannot be written`, { cause })
  })
}

/** The real path of the part of the folder that exists, with the missing names after it. */
const resolvedFolder = async (root: string, folder: string, path: string): Promise<string> => {
  const real = await realpath(folder).catch(() => undefined)
  if (real !== undefined) {
    if (!isBelow(root, real)) throw outside(path)
    return real
  }
  if (!isBelow(root, dirname(folder))) throw outside(path)
  return resolve(await resolvedFolder(root, dirname(folder), path), basename(folder))
}

const outside = (path: string): SecretsError =>
  new SecretsError("bad-input", `${path} lies outside the workspace`)
