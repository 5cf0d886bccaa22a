/** Snapshots of the sandbox: removes secrets from files beforehand, and detects a restore afterwards. */
import { constants } from "node:fs"
import { lchown, open, readFile, rm, writeFile } from "node:fs/promises"
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import { readAtMost } from "../../lib/untrusted-files.ts"
import { readBootId } from "./boot-id.ts"
import { readProcess } from "../../lib/process-identity.ts"
import { type Moment, restoredBetween } from "./restore-state.ts"

/**
 * Identifies this boot of the sandbox. Containers share the kernel's boot id, so the start time of their first process
 * is part of it.
 */
export const sandboxBootId = (): string =>
  `${readBootId()}/${readProcess(1)?.startTime ?? "unknown"}`

export interface RestoreWatchOptions {
  readonly clock: Clock
  readonly onRestore: (why: string) => void
  readonly moment?: () => Moment
}

const CHECK_MS = 5000
/**
 * Delay between detection and `onRestore`, which drops connections. In this time the data in their buffers is read: a
 * prompt that the kernel received while the machine was frozen would otherwise be lost.
 */
const DRAIN_MS = 250

/** For snapshots that include memory: this process continues on another machine or at a later time. */
export const watchForRestore = ({
  clock,
  onRestore,
  moment = currentMoment,
}: RestoreWatchOptions): (() => void) => {
  let before = moment()
  let cancel = () => {}
  let cancelReport = () => {}
  const check = () => {
    const now = moment()
    const why = restoredBetween(before, now, CHECK_MS)
    before = now
    cancel = clock.after(CHECK_MS, check)
    if (why !== undefined) cancelReport = clock.after(DRAIN_MS, () => onRestore(why))
  }
  cancel = clock.after(CHECK_MS, check)
  return () => {
    cancel()
    cancelReport()
  }
}

const currentMoment = (): Moment => ({
  bootId: readBootId(),
  wall: Date.now(),
  steady: performance.now(),
})

export interface Scrubbed {
  readonly files: readonly string[]
  /** Writes the files back, for a sandbox that continues. */
  readonly putBack: () => Promise<void>
}

/** Our files are kilobytes. A larger one was written by the agent: it is removed, but not kept in memory. */
const MOST_BYTES = 4 * 1024 * 1024

/** Removes files with secrets from the disk; their content is kept in memory. */
export const scrubFiles = async (paths: readonly string[]): Promise<Scrubbed> => {
  const kept: { path: string; content: Buffer; uid: number; gid: number }[] = []
  const removed: string[] = []
  for (const path of paths) {
    // The agent can write to these directories: a symbolic link there may point to any file.
    // O_NONBLOCK: a FIFO there would otherwise block the hook until another program writes to it.
    const { O_RDWR, O_NOFOLLOW, O_NONBLOCK } = constants
    const file = await open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK).catch(() => undefined)
    if (file === undefined) continue
    try {
      const found = await file.stat()
      const { uid, gid, nlink, size } = found
      // A hard link may point to any file too. A FIFO or a device holds no secret of ours.
      if (nlink !== 1 || !found.isFile()) continue
      removed.push(path)
      const isOurs = size <= MOST_BYTES
      const content = isOurs ? await readAtMost(file, MOST_BYTES).catch(() => undefined) : undefined
      if (content !== undefined) kept.push({ path, content, uid, gid })
      const length = content?.length ?? MOST_BYTES
      // Overwritten first: the blocks of a removed file remain readable in a disk image.
      await file.write(Buffer.alloc(length), 0, length, 0)
      await file.sync()
    } finally {
      await file.close()
    }
    await rm(path)
  }
  return {
    files: removed,
    putBack: async () => {
      for (const { path, content, uid, gid } of kept) {
        await rm(path, { recursive: true, force: true })
        await writeFile(path, content, { mode: 0o600, flag: "wx" })
        // The owner may be the agent's user, the only one who may read the file.
        await lchown(path, uid, gid)
      }
    },
  }
}

/** Overwrites one value of a JSON file in place; the rest of the file is still needed. */
export const scrubField = async (path: string, field: string): Promise<Scrubbed> => {
  const content = await readFile(path, "utf8").catch(() => "{}")
  const written = JSON.stringify(jsonObject.safeParse(JSON.parse(content)).data?.[field])
  if (written === undefined || !content.includes(written)) {
    return { files: [], putBack: async () => {} }
  }
  const put = (text: string) => writeFile(path, text, { flag: "r+", flush: true })
  await put(content.replace(written, JSON.stringify("0".repeat(written.length - 2))))
  return { files: [path], putBack: () => put(content) }
}

const jsonObject = z.record(z.string(), z.unknown())
