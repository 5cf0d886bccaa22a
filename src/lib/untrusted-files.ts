/**
 * Files in directories that another user may change at any moment. A path is resolved once: the file or directory is
 * opened without following a link or waiting, and only its descriptor is checked and used.
 */
import { constants, type Stats } from "node:fs"
import { type FileHandle, lchown, mkdir, open, readlink } from "node:fs/promises"
import { sep } from "node:path"
import { errorCode } from "./error-code.ts"

/** The file is not what the caller may read or write; nothing was changed. */
export class UntrustedFile extends Error {
  override readonly name = "UntrustedFile"
}

export interface FileOwner {
  readonly uid: number
  readonly gid: number
}

export interface ReadLimits {
  readonly maxBytes: number
  /** The file must be below this real path at the moment it is open. */
  readonly root?: string
  /** The mode of the file must allow this user to read it; without a user it is not checked. */
  readonly reader?: FileOwner | undefined
}

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/** Reads a regular file. A FIFO, a device, a link, a file outside `root` or above the size limit is refused. */
export const readRegularFile = async (path: string, limits: ReadLimits): Promise<Buffer> => {
  // O_NONBLOCK: opening a FIFO would otherwise occupy a thread until a writer opens it too.
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const found = await file.stat()
    if (!found.isFile()) throw new UntrustedFile("it is not a regular file")
    if (limits.root !== undefined && !isBelow(limits.root, await pathOf(file))) {
      throw new UntrustedFile("it lies outside the directory")
    }
    if (limits.reader && !mayRead(found, limits.reader)) {
      throw new UntrustedFile("the agent's user may not read it")
    }
    return await readAtMost(file, limits.maxBytes)
  } finally {
    await file.close()
  }
}

/** The size at the start is not enough: the file may grow while it is read. */
export const readAtMost = async (file: FileHandle, maxBytes: number): Promise<Buffer> => {
  const { size } = await file.stat()
  if (size > maxBytes) throw new UntrustedFile(`it is larger than ${maxBytes} bytes`)
  const bytes = Buffer.alloc(size + 1)
  let length = 0
  while (length < bytes.length) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length, length)
    if (bytesRead === 0) return bytes.subarray(0, length)
    length += bytesRead
  }
  throw new UntrustedFile("it changed while it was read")
}

/** A hard link in the workspace can name a file of another user, so the path alone does not decide. */
const mayRead = ({ uid, gid, mode }: Stats, reader: FileOwner): boolean => {
  if (uid === reader.uid) return (mode & 0o400) !== 0
  if (gid === reader.gid) return (mode & 0o040) !== 0
  return (mode & 0o004) !== 0
}

/** A directory that is held open: names in it are resolved from the descriptor, so that a swapped path changes nothing. */
export interface HeldDirectory {
  /** The path of the directory itself, valid while it is held. */
  readonly self: string
  /** The path of an entry, for system calls that do not follow links themselves. */
  readonly entry: (name: string) => string
  /** The existing directory of this name. A link is refused. */
  readonly existing: (name: string) => Promise<HeldDirectory>
  /** The directory of this name, created if it is missing and then given to `owner`. A link is refused. */
  readonly directory: (name: string, owner?: FileOwner) => Promise<HeldDirectory>
  readonly close: () => Promise<void>
}

/** `path` must have no link as its last name. */
const holdDirectory = async (path: string): Promise<HeldDirectory> => {
  const handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch((cause: unknown) => {
    throw new UntrustedFile("it is not a directory", { cause })
  })
  const self = `/proc/self/fd/${handle.fd}`
  const entry = (name: string): string => `${self}/${checkedName(name)}`
  return {
    self,
    entry,
    existing: (name) => holdDirectory(entry(name)),
    directory: async (name, owner) => {
      const isNew = await mkdir(entry(name), { mode: 0o755 }).then(() => true, unlessExists)
      if (isNew && owner) await lchown(entry(name), owner.uid, owner.gid)
      return holdDirectory(entry(name))
    },
    close: () => handle.close(),
  }
}

/** Holds the directory at the end of `names`, one after another from `root`, and creates the missing ones. */
export const holdBelow = (
  root: string,
  names: readonly string[],
  owner?: FileOwner,
): Promise<HeldDirectory> => descend(root, names, (parent, name) => parent.directory(name, owner))

/** Holds the directory at the end of `names`; all of them must exist. */
export const holdExisting = (root: string, names: readonly string[]): Promise<HeldDirectory> =>
  descend(root, names, (parent, name) => parent.existing(name))

const descend = async (
  root: string,
  names: readonly string[],
  next: (parent: HeldDirectory, name: string) => Promise<HeldDirectory>,
): Promise<HeldDirectory> => {
  let held = await holdDirectory(root)
  for (const name of names) {
    const parent = held
    try {
      held = await next(parent, name)
    } finally {
      await parent.close()
    }
  }
  return held
}

const checkedName = (name: string): string => {
  if (name === "" || name === "." || name === ".." || name.includes("/")) {
    throw new UntrustedFile(`${JSON.stringify(name)} is not the name of a file`)
  }
  return name
}

const pathOf = (file: FileHandle): Promise<string> => readlink(`/proc/self/fd/${file.fd}`)

/** False if the file exists already; any other failure is thrown. */
export const unlessExists = (error: unknown): false => {
  if (errorCode(error) === "EEXIST") return false
  throw error
}

export const isBelow = (root: string, path: string): boolean =>
  path === root || path.startsWith(root === sep ? root : `${root}${sep}`)
