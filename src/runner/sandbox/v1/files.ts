/**
 * The files of the workspace for the `/v1` routes. Every path is opened component by component without following a link;
 * what is opened is inspected first, so that a FIFO or a device is never opened. Runs as the agent's user.
 */
import { constants, type Stats } from "node:fs"
import {
  type FileHandle,
  link,
  lstat,
  open,
  opendir,
  rename,
  rm,
  rmdir,
  unlink,
} from "node:fs/promises"
import {
  type HeldDirectory,
  holdBelow,
  holdExisting,
  unlessExists,
} from "../../../lib/untrusted-files.ts"
import { namesBelow, pathOf } from "./paths.ts"
import { invalid, Problem, problemOf } from "./problem.ts"
import { errorCode } from "../../../lib/error-code.ts"

export interface FileEntry {
  readonly path: string
  readonly entryType: "file" | "directory"
  readonly size: number
  readonly modified: string
  /** Set for what is neither a regular file nor a directory. */
  readonly special?: "symlink" | "fifo" | "socket" | "device"
}

export interface OpenFile {
  readonly file: FileHandle
  readonly size: number
  readonly modified: Date
}

export interface Draft {
  readonly write: (bytes: Uint8Array) => Promise<void>
  /** Gives the file its name. */
  readonly commit: () => Promise<void>
  /** Gives the file its name, unless the name is taken; then false. */
  readonly commitIfAbsent: () => Promise<boolean>
  /** Removes the unfinished file; does nothing after `commit`. */
  readonly discard: () => Promise<void>
}

export interface Files {
  readonly list: (path: string) => Promise<readonly (FileEntry & { readonly name: string })[]>
  readonly stat: (path: string) => Promise<FileEntry>
  /** The caller closes the file. */
  readonly openForReading: (path: string) => Promise<OpenFile>
  /** Creates missing directories. The file appears under its name with `commit`, and then as a whole. */
  readonly draft: (path: string, mode?: number) => Promise<Draft>
  readonly makeDirectory: (path: string) => Promise<void>
  readonly move: (from: string, to: string, overwrite: boolean) => Promise<void>
  readonly remove: (path: string, recursive: boolean) => Promise<void>
  /** Holds a directory, for work inside it. */
  readonly hold: (path: string) => Promise<HeldDirectory>
  readonly absolute: (path: string) => string
}

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants
/** Names a file without opening it; Node has no name for this flag of Linux. */
const O_PATH = 0o10000000
const MOST_ENTRIES = 20_000
const DEEPEST = 200
export const DRAFT_PREFIX = ".sandpiper-draft-"

/** `root` is the real path of the workspace. */
export const createFiles = (root: string): Files => {
  const absolute = (path: string): string => pathOf(root, namesBelow(root, path))

  /** Runs `use` in the directory that contains the path's last name. Failed system calls become Problems. */
  const inParent = async <Result>(
    path: string,
    hold: (root: string, names: readonly string[]) => Promise<HeldDirectory>,
    use: (parent: HeldDirectory, name: string) => Promise<Result>,
  ): Promise<Result> => {
    const names = namesBelow(root, path)
    const name = names.at(-1)
    if (name === undefined) throw invalid("the path names the workspace itself")
    return explained(absolute(path), async () => {
      const parent = await hold(root, names.slice(0, -1))
      try {
        return await use(parent, name)
      } finally {
        await parent.close()
      }
    })
  }

  const hold = (path: string): Promise<HeldDirectory> =>
    explained(absolute(path), () => holdExisting(root, namesBelow(root, path)))

  const draftIn = async (parent: HeldDirectory, name: string, mode?: number): Promise<Draft> => {
    const former = await lstat(parent.entry(name)).catch(unlessMissing)
    if (former?.isDirectory()) throw new Problem(400, "invalid_request", `${name} is a directory`)
    if (former && !former.isFile()) throw invalid(`${name} is not a regular file`)
    const draft = parent.entry(`${DRAFT_PREFIX}${crypto.randomUUID()}`)
    const file = await open(draft, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o666)
    let isOpen = true
    const close = async () => {
      if (!isOpen) return
      isOpen = false
      await file.close()
      await parent.close()
    }
    const kept = mode ?? former?.mode
    if (kept !== undefined) await file.chmod(kept & 0o777)
    return {
      write: async (bytes) => {
        let at = 0
        while (at < bytes.length) {
          const { bytesWritten } = await file.write(bytes, at, bytes.length - at)
          at += bytesWritten
        }
      },
      commit: async () => {
        await rename(draft, parent.entry(name))
        await close()
      },
      commitIfAbsent: async () => {
        const isNew = await link(draft, parent.entry(name)).then(() => true, unlessExists)
        await unlink(draft)
        await close()
        return isNew
      },
      discard: async () => {
        if (!isOpen) return
        await rm(draft, { force: true }).catch(() => {})
        await close()
      },
    }
  }

  return {
    absolute,
    hold,
    list: async (path) => {
      const directory = await hold(path)
      try {
        const base = absolute(path)
        const names: string[] = []
        for await (const { name } of await opendir(directory.self)) {
          if (name.startsWith(DRAFT_PREFIX)) continue
          if (names.length >= MOST_ENTRIES) {
            throw new Problem(
              413,
              "invalid_request",
              `${base} has more than ${MOST_ENTRIES} entries`,
            )
          }
          names.push(name)
        }
        const entries = await Promise.all(
          names.toSorted().map(async (name) => {
            const found = await lstat(directory.entry(name)).catch(unlessMissing)
            // It was deleted after its name was read.
            if (found === undefined) return []
            return [{ name, ...entryOf(`${base === "/" ? "" : base}/${name}`, found) }]
          }),
        )
        return entries.flat()
      } finally {
        await directory.close()
      }
    },
    stat: async (path) => {
      if (namesBelow(root, path).length === 0) {
        const directory = await hold(path)
        try {
          return entryOf(root, await lstat(`${directory.self}/.`))
        } finally {
          await directory.close()
        }
      }
      return inParent(path, holdExisting, async (parent, name) =>
        entryOf(absolute(path), await lstat(parent.entry(name))),
      )
    },
    openForReading: (path) =>
      inParent(path, holdExisting, async (parent, name) => {
        const named = await open(parent.entry(name), O_PATH | O_NOFOLLOW)
        try {
          const found = await named.stat()
          refuseForReading(absolute(path), found)
          const file = await open(`/proc/self/fd/${named.fd}`, O_RDONLY | O_NONBLOCK)
          return { file, size: found.size, modified: found.mtime }
        } finally {
          await named.close()
        }
      }),
    draft: async (path, mode) => {
      const names = namesBelow(root, path)
      const name = names.at(-1)
      if (name === undefined) throw invalid("the path names the workspace itself")
      return explained(absolute(path), async () => {
        const parent = await holdBelow(root, names.slice(0, -1))
        try {
          return await draftIn(parent, name, mode)
        } catch (error) {
          await parent.close()
          throw error
        }
      })
    },
    makeDirectory: (path) =>
      explained(absolute(path), async () => {
        const directory = await holdBelow(root, namesBelow(root, path))
        await directory.close()
      }),
    move: (from, to, overwrite) =>
      inParent(from, holdExisting, async (source, fromName) => {
        // A missing source must not leave new directories at the destination.
        await lstat(source.entry(fromName))
        await inParent(to, holdBelow, async (target, toName) => {
          const existing = await lstat(target.entry(toName)).catch(unlessMissing)
          if (existing && !overwrite) {
            throw new Problem(
              409,
              "conflict",
              `${absolute(to)} exists already: move with overwrite=true to replace it`,
            )
          }
          await rename(source.entry(fromName), target.entry(toName))
        })
      }),
    remove: (path, recursive) =>
      inParent(path, holdExisting, async (parent, name) => {
        const found = await lstat(parent.entry(name))
        if (!found.isDirectory()) return unlink(parent.entry(name))
        if (recursive) await empty(parent, name, 0)
        await rmdir(parent.entry(name))
      }),
  }
}

/** Deletes what is in a directory. Each level is held open, so that a directory that is swapped for a link stays safe. */
const empty = async (parent: HeldDirectory, name: string, depth: number): Promise<void> => {
  if (depth >= DEEPEST) throw invalid(`${name} is nested more than ${DEEPEST} levels deep`)
  const directory = await parent.existing(name)
  try {
    for await (const { name: child } of await opendir(directory.self)) {
      const found = await lstat(directory.entry(child)).catch(unlessMissing)
      if (found === undefined) continue
      if (!found.isDirectory()) await unlink(directory.entry(child))
      else {
        await empty(directory, child, depth + 1)
        await rmdir(directory.entry(child))
      }
    }
  } finally {
    await directory.close()
  }
}

const explained = async <Result>(path: string, work: () => Promise<Result>): Promise<Result> => {
  try {
    return await work()
  } catch (error) {
    throw problemOf(error, path)
  }
}

const refuseForReading = (path: string, found: Stats): void => {
  if (found.isDirectory()) throw invalid(`${path} is a directory`)
  if (found.isSymbolicLink()) throw invalid(`${path} is a symbolic link, which is not followed`)
  if (!found.isFile()) throw invalid(`${path} is not a regular file`)
  // A hard link can name a file that another user keeps outside the workspace.
  if (found.nlink > 1 && found.uid !== process.getuid?.()) {
    throw new Problem(
      403,
      "permission_denied",
      `${path} is a hard link to a file of another user, which is not read`,
    )
  }
}

const entryOf = (path: string, found: Stats): FileEntry => {
  const special = specialOf(found)
  return {
    path,
    entryType: found.isDirectory() ? "directory" : "file",
    size: found.size,
    modified: found.mtime.toISOString(),
    ...(special && { special }),
  }
}

const specialOf = (found: Stats): FileEntry["special"] => {
  if (found.isSymbolicLink()) return "symlink"
  if (found.isFIFO()) return "fifo"
  if (found.isSocket()) return "socket"
  return found.isFile() || found.isDirectory() ? undefined : "device"
}

const unlessMissing = (error: unknown): undefined => {
  if (errorCode(error) === "ENOENT") return undefined
  throw error
}
