/** The output of one service on disk: two files of bounded size, of which the older one is replaced. */
import { appendFile, mkdir, readFile, rename, rm, stat } from "node:fs/promises"
import { dirname } from "node:path"
import { createInOrder } from "../../../lib/in-order.ts"

export interface ServiceLog {
  /**
   * Resolves when the bytes are written, so that a flood waits for the disk and does not fill the memory. Never rejects:
   * bytes that the disk does not take are left out, and the service goes on.
   */
  readonly append: (bytes: Uint8Array) => Promise<void>
  /** At most the last `bytes` of the output. */
  readonly tail: (bytes: number) => Promise<Buffer>
  /** Calls back with everything that is appended from now on. Returns the function that ends it. */
  readonly follow: (take: (bytes: Uint8Array) => void) => () => void
  readonly remove: () => Promise<void>
  /** Resolves when everything that was appended so far is written. */
  readonly settled: () => Promise<void>
}

const FILE_BYTES = 1024 * 1024

export const openServiceLog = (path: string, fileBytes = FILE_BYTES): ServiceLog => {
  const followers = new Set<(bytes: Uint8Array) => void>()
  let size: number | undefined
  /** Also for the two streams of one service. */
  const inOrder = createInOrder()
  const write = async (bytes: Uint8Array) => {
    if (size === undefined) {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      size = (await stat(path).catch(() => undefined))?.size ?? 0
    }
    // Of one large chunk only what both files can hold is written.
    for (let rest = bytes.subarray(-2 * fileBytes); rest.length > 0;) {
      const part = rest.subarray(0, Math.max(1, fileBytes - size))
      await appendFile(path, part, { mode: 0o600 })
      size += part.length
      rest = rest.subarray(part.length)
      if (size < fileBytes) continue
      await rename(path, `${path}.1`)
      size = 0
    }
  }

  return {
    append: (bytes) => {
      for (const take of followers) take(bytes)
      return inOrder(() =>
        write(bytes).catch(() => {
          // The folder may be gone: the next bytes make it again.
          size = undefined
        }),
      )
    },
    tail: (bytes) =>
      inOrder(async () => {
        const [older, newer] = await Promise.all([`${path}.1`, path].map(readIfThere))
        return Buffer.concat([older ?? empty, newer ?? empty]).subarray(-bytes)
      }),
    follow: (take) => {
      followers.add(take)
      return () => void followers.delete(take)
    },
    remove: () =>
      inOrder(async () => {
        size = undefined
        await Promise.all([path, `${path}.1`].map((one) => rm(one, { force: true })))
      }),
    settled: () => inOrder(async () => {}),
  }
}

const empty = Buffer.alloc(0)

const readIfThere = (path: string): Promise<Buffer> => readFile(path).catch(() => empty)
