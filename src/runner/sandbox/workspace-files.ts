/** Reads and writes files of the runner in the workspace only, even where symbolic links lead out of it. */
import { constants } from "node:fs"
import { link, open, realpath, rename, rm } from "node:fs/promises"
import { basename, dirname, resolve, sep } from "node:path"
import {
  type FileOwner,
  type HeldDirectory,
  holdBelow,
  holdExisting,
  isBelow,
  readRegularFile,
  UntrustedFile,
} from "../../lib/untrusted-files.ts"
import { SecretsError } from "./secrets-error.ts"
import { errorCode } from "../../lib/error-code.ts"

export type Owner = FileOwner

export interface WorkPlace {
  readonly workDir: string
  /**
   * The directory that `workDir` is in, or `workDir` itself. Only its own path may lead over links: what is below it belongs to
   * the agent, who can put a link in the place of `workDir` too.
   */
  readonly root?: string | undefined
}

/** Far above any template, and small enough to hold in memory. */
const TEMPLATE_BYTES = 1024 * 1024

/** The real paths of a place at this moment: `base` is that of its working directory. */
interface RealPlace {
  readonly root: string
  readonly base: string
}

const realPlace = async ({ workDir, root = workDir }: WorkPlace): Promise<RealPlace> => {
  const [real, base] = [await realpath(root), await realpath(workDir)]
  if (isBelow(real, base)) return { root: real, base }
  throw new SecretsError("bad-input", "the working directory is a link out of the workspace")
}

/** The real path of an existing file or folder of the workspace. */
export const insideWorkspace = async (workDir: string, path: string): Promise<string> => {
  const root = await realpath(workDir)
  const real = await realpath(resolve(root, path)).catch(() => undefined)
  if (real === undefined) throw new SecretsError("not-found", `there is no ${path}`)
  if (!isBelow(root, real)) throw outside(path)
  return real
}

/** Uses an existing folder of the workspace while it is held. */
export const withFolder = async <Result>(
  place: WorkPlace,
  path: string,
  use: (folder: HeldDirectory) => Promise<Result>,
): Promise<Result> => {
  const { root, base } = await realPlace(place)
  const real = await realpath(resolve(base, path)).catch(() => undefined)
  if (real === undefined) throw new SecretsError("not-found", `there is no ${path}`)
  if (!isBelow(base, real)) throw outside(path)
  const folder = await holdExisting(root, namesFrom(root, real)).catch((cause: unknown) => {
    throw new SecretsError("bad-input", `${path} is not a folder`, { cause })
  })
  try {
    return await use(folder)
  } finally {
    await folder.close()
  }
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
  place: WorkPlace,
  path: string,
  text: string,
  owner: Owner | undefined,
): Promise<void> => writeBelow({ ...place, path, text, owner, mode: 0o600, settle: rename })

/** Creates a file that must not exist yet. */
export const writeNewFile = (
  place: WorkPlace,
  path: string,
  text: string,
  owner: Owner | undefined,
): Promise<void> =>
  writeBelow({
    ...place,
    path,
    text,
    owner,
    mode: 0o644,
    settle: async (draft, target) => {
      await link(draft, target)
      await rm(draft)
    },
  })

/** Rejects if a file of this path would lie outside the workspace. */
export const checkInside = async (place: WorkPlace, path: string): Promise<void> => {
  const { base } = await realPlace(place)
  await resolvedFolder(base, dirname(requestedPath(base, path)), path)
}

const requestedPath = (base: string, path: string): string => {
  const requested = resolve(base, path)
  if (!isBelow(base, requested) || requested === base) throw outside(path)
  return requested
}

interface FileToWrite extends WorkPlace {
  readonly path: string
  readonly text: string
  readonly owner: Owner | undefined
  readonly mode: number
  /** Moves the complete draft to its name. */
  readonly settle: (draft: string, target: string) => Promise<void>
}

const writeBelow = async ({ path, text, owner, mode, settle, ...where }: FileToWrite) => {
  const place = await realPlace(where)
  const requested = requestedPath(place.base, path)
  const folder = await holdFolder(place, dirname(requested), path, owner)
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
    await settle(draft, target)
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
  { root, base }: RealPlace,
  folder: string,
  path: string,
  owner: Owner | undefined,
): Promise<HeldDirectory> => {
  const names = namesFrom(root, await resolvedFolder(base, folder, path))
  return holdBelow(root, names, owner).catch((cause: unknown) => {
    if (cause instanceof UntrustedFile) throw outside(path)
    throw new SecretsError("bad-input", `outputPath: ${path} cannot be written`, { cause })
  })
}

const namesFrom = (root: string, real: string): readonly string[] =>
  real.slice(root.length).split(sep).filter(Boolean)

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
