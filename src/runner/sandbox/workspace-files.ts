/** Reads and writes files for secrets in the workspace only, even where symbolic links lead out of it. */
import { constants } from "node:fs"
import { lchown, mkdir, open, readFile, readlink, realpath, rename, rm } from "node:fs/promises"
import { basename, dirname, join, resolve, sep } from "node:path"
import { SecretsError } from "./secrets-error.ts"

/** The real path of an existing file or folder of the workspace. */
export const insideWorkspace = async (workDir: string, path: string): Promise<string> => {
  const root = await realpath(workDir)
  const real = await realpath(resolve(root, path)).catch(() => undefined)
  if (real === undefined) throw new SecretsError("not-found", `there is no ${path}`)
  if (!isBelow(root, real)) throw outside(path)
  return real
}

export const readTemplate = async (workDir: string, path: string): Promise<string> => {
  const real = await insideWorkspace(workDir, path)
  return readFile(real, "utf8").catch((cause: unknown) => {
    throw new SecretsError("bad-input", `templatePath: ${path} is not a readable file`, {
      cause,
    })
  })
}

/** Writes a file atomically (a temporary file is renamed), readable only by its owner. */
export const writeSecretFile = async (
  workDir: string,
  path: string,
  text: string,
  owner: Owner | undefined,
): Promise<void> => {
  const root = await realpath(workDir)
  const requested = resolve(root, path)
  if (!isBelow(root, requested) || requested === root) throw outside(path)
  const folder = await makeFolder(root, dirname(requested), path, owner)
  const target = join(folder, basename(requested))
  const draft = join(folder, `.${basename(requested)}.${crypto.randomUUID()}`)
  const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants
  const file = await open(draft, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600)
  try {
    // The folder may have been replaced by a link after the check; the open file shows the real path.
    if (!isBelow(root, await readlink(`/proc/self/fd/${file.fd}`))) throw outside(path)
    await file.chmod(0o600)
    if (owner) await file.chown(owner.uid, owner.gid)
    await file.writeFile(text)
    await file.close()
    await rename(draft, target)
  } catch (error) {
    await file.close().catch(() => {})
    await rm(draft, { force: true })
    if (error instanceof SecretsError) throw error
    throw new SecretsError("bad-input", `outputPath: ${path} cannot be written`, { cause: error })
  }
}

export interface Owner {
  readonly uid: number
  readonly gid: number
}

/** Creates each folder separately, because `mkdir -p` would follow a link out of the workspace. */
const makeFolder = async (
  root: string,
  folder: string,
  path: string,
  owner: Owner | undefined,
): Promise<string> => {
  const names = folder.slice(root.length).split(sep).filter(Boolean)
  let real = root
  for (const name of names) {
    const next = join(real, name)
    const isNew = await mkdir(next, { mode: 0o755 }).then(
      () => true,
      () => false,
    )
    if (isNew && owner) await lchown(next, owner.uid, owner.gid)
    real = await realpath(next).catch(() => "")
    if (!isBelow(root, real)) throw outside(path)
  }
  return real
}

const isBelow = (root: string, path: string): boolean =>
  path === root || path.startsWith(root === sep ? root : `${root}${sep}`)

const outside = (path: string): SecretsError =>
  new SecretsError("bad-input", `${path} lies outside the workspace`)
