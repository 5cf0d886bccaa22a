/** The machine put to sleep and woken: secrets out of files before, and a watch that notices afterwards. */
import { constants } from "node:fs"
import { lchown, open, readFile, rm, writeFile } from "node:fs/promises"
import { z } from "zod"
import type { Clock } from "../../lib/clock.ts"
import { readBootId } from "./boot-id.ts"
import { readProcess } from "./processes.ts"
import { type Moment, restoredBetween } from "./restore-state.ts"

/**
 * Names this life of the sandbox. Containers share the kernel's boot id, so the start of their first process
 * counts too.
 */
export const lifeOf = (): string => `${readBootId()}/${readProcess(1)?.startTime ?? "unknown"}`

export interface RestoreWatchOptions {
  readonly clock: Clock
  readonly onRestore: (why: string) => void
  readonly moment?: () => Moment
}

const LOOK_MS = 5000
/**
 * Connections of before are dropped, but what lies in their buffers is read first: a prompt that came while the
 * machine stood still was taken by the kernel, and whoever said it need not say it again.
 */
const READ_MS = 250

/** For snapshots that include memory: this process itself goes on, in another machine or at another time. */
export const watchForRestore = ({
  clock,
  onRestore,
  moment = currentMoment,
}: RestoreWatchOptions): (() => void) => {
  let before = moment()
  let cancel = () => {}
  let cancelTelling = () => {}
  const look = () => {
    const now = moment()
    const why = restoredBetween(before, now, LOOK_MS)
    before = now
    cancel = clock.after(LOOK_MS, look)
    if (why !== undefined) cancelTelling = clock.after(READ_MS, () => onRestore(why))
  }
  cancel = clock.after(LOOK_MS, look)
  return () => {
    cancel()
    cancelTelling()
  }
}

const currentMoment = (): Moment => ({
  bootId: readBootId(),
  wall: Date.now(),
  steady: performance.now(),
})

export interface Scrubbed {
  readonly files: readonly string[]
  /** For a machine that goes on: the files as they were. */
  readonly putBack: () => Promise<void>
}

/** Takes files with secrets off the disk; they live on in this process's memory only. */
export const scrubFiles = async (paths: readonly string[]): Promise<Scrubbed> => {
  const kept: { path: string; content: Buffer; uid: number; gid: number }[] = []
  for (const path of paths) {
    // They lie in the agent's directories: a link there may lead to a file that is none of theirs.
    const file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW).catch(() => undefined)
    if (file === undefined) continue
    try {
      const { uid, gid, nlink } = await file.stat()
      // Another name of the same file tells whose it is as little as a link does.
      if (nlink !== 1) continue
      const content = await file.readFile()
      kept.push({ path, content, uid, gid })
      // Overwritten first: the blocks of a removed file stay readable in an image of the disk.
      await file.write(Buffer.alloc(content.length), 0, content.length, 0)
      await file.sync()
    } finally {
      await file.close()
    }
    await rm(path)
  }
  return {
    files: kept.map(({ path }) => path),
    putBack: async () => {
      for (const { path, content, uid, gid } of kept) {
        await rm(path, { recursive: true, force: true })
        await writeFile(path, content, { mode: 0o600, flag: "wx" })
        // Their reader may be the agent's user, and nobody else reads them.
        await lchown(path, uid, gid)
      }
    },
  }
}

/** Takes one value out of a JSON file that is needed for the rest of it, in place: its bytes are written over. */
export const scrubField = async (path: string, field: string): Promise<Scrubbed> => {
  const content = await readFile(path, "utf8").catch(() => "{}")
  const written = JSON.stringify(shape.safeParse(JSON.parse(content)).data?.[field])
  if (written === undefined || !content.includes(written)) {
    return { files: [], putBack: async () => {} }
  }
  const put = (text: string) => writeFile(path, text, { flag: "r+", flush: true })
  await put(content.replace(written, JSON.stringify("0".repeat(written.length - 2))))
  return { files: [path], putBack: () => put(content) }
}

const shape = z.record(z.string(), z.unknown())
