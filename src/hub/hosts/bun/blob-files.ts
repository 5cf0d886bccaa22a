/** The blobs of one session: files of its folder, which is made with the first one. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import type { Blobs } from "../../session/ports.ts"

export interface BlobFiles extends Blobs {
  readonly read: (id: string) => Uint8Array<ArrayBuffer> | undefined
  /** The size of all blobs. */
  readonly bytes: () => number
}

export const createBlobFiles = (folder: string): BlobFiles => {
  const fileOf = (id: string) => join(folder, blobName(id))
  const ids = () => (existsSync(folder) ? readdirSync(folder) : [])
  return {
    put: (id, _mime, base64) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      writeFileSync(fileOf(id), Buffer.from(base64, "base64"), { mode: 0o600 })
    },
    get: (id) => (existsSync(fileOf(id)) ? readFileSync(fileOf(id), "base64") : undefined),
    remove: (id) => rmSync(fileOf(id), { force: true }),
    ids,
    read: (id) => (existsSync(fileOf(id)) ? new Uint8Array(readFileSync(fileOf(id))) : undefined),
    bytes: () => ids().reduce((sum, id) => sum + sizeOf(join(folder, id)), 0),
  }
}

export const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** Blob ids are the hub's own; a name that could leave the folder is a fault of the program. */
const blobName = (id: string): string => {
  if (!/^[\w-]{1,64}$/.test(id))
    throw new Error("a blob id must be 1 to 64 letters, digits, _ or -")
  return id
}
