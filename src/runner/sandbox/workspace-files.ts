/** Files of the workspace for secrets: nothing is read or written outside, whatever links lead there. */
import { constants } from "node:fs"
import { lchown, mkdir, open, readFile, readlink, realpath, rename, rm } from "node:fs/promises"
import { basename, dirname, join, resolve, sep } from "node:path"
import { SecretsError } from "./secrets-error.ts"

/** The real path of something that exists in the workspace. */
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
    throw new SecretsError("bad-input", `templatePath: ${path} is no file that can be read`, {
      cause,
    })
  })
}

/** Written whole beside its place and moved there: readers see all of it or nothing, and only their owner may read. */
export const writeSecretFile = async (
  workDir: string,
  path: string,
  text: string,
  owner: Owner | undefined,
): Promise<void> => {
  const root = await realpath(workDir)
  const wanted = resolve(root, path)
  if (!isBelow(root, wanted) || wanted === root) throw outside(path)
  const folder = await makeFolder(root, dirname(wanted), path, owner)
  const target = join(folder, basename(wanted))
  const draft = join(folder, `.${basename(wanted)}.${crypto.randomUUID()}`)
  const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants
  const file = await open(draft, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600)
  try {
    // The folder may have been exchanged for a link since it was looked at: the open file tells where it really is.
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

/** Made step by step: `mkdir -p` would follow a link out of the workspace on its way. */
const makeFolder = async (
  root: string,
  folder: string,
  path: string,
  owner: Owner | undefined,
): Promise<string> => {
  const steps = folder.slice(root.length).split(sep).filter(Boolean)
  let real = root
  for (const step of steps) {
    const next = join(real, step)
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
