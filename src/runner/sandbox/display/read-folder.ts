/** Finds and reads the files of the display folder. The agent may change it at any moment: no link is followed. */
import { lstat, opendir } from "node:fs/promises"
import {
  type FileOwner,
  type HeldDirectory,
  holdExisting,
  readRegularFile,
  UntrustedFile,
} from "../../../lib/untrusted-files.ts"
import { DISPLAY_FOLDER, displayLimits } from "../../../wire/frames/display.ts"
import type { FoundFile } from "./display-state.ts"

const DEEPEST = 4
/** Far more than anyone looks at; the rest of a larger folder is not read. */
const MOST_ENTRIES = 1000

/** Empty when there is no such folder, or when a link is in its place. */
export const findFiles = async (workDir: string): Promise<readonly FoundFile[]> => {
  const found: FoundFile[] = []
  let left = MOST_ENTRIES

  const walk = async (directory: HeldDirectory, above: readonly string[]): Promise<void> => {
    for await (const { name } of await opendir(directory.self)) {
      left -= 1
      if (left < 0) return
      const path = [...above, name].join("/")
      if (path.length > displayLimits.pathCharacters) continue
      const stats = await lstat(directory.entry(name), { bigint: true }).catch(() => undefined)
      if (stats === undefined) continue
      if (!stats.isDirectory()) {
        const { dev, ino, size, mtimeNs, ctimeNs } = stats
        const stamp = [dev, ino, size, mtimeNs, ctimeNs].join(":")
        found.push({ path, bytes: Number(size), stamp, isRegular: stats.isFile() })
      } else if (above.length < DEEPEST) {
        await within(
          () => directory.existing(name),
          (child) => walk(child, [...above, name]),
        )
      }
    }
  }

  await within(
    () => holdExisting(workDir, DISPLAY_FOLDER.split("/")),
    (folder) => walk(folder, []),
  )
  return found
}

/** Undefined when it cannot be read any more, or is not a regular file of the agent. */
export const readFound = async (
  workDir: string,
  path: string,
  reader: FileOwner | undefined,
): Promise<Buffer | undefined> => {
  const names = [...DISPLAY_FOLDER.split("/"), ...path.split("/")]
  const name = names.pop() ?? ""
  let bytes: Buffer | undefined
  await within(
    () => holdExisting(workDir, names),
    async (folder) => {
      const limits = { maxBytes: displayLimits.fileBytes, reader }
      bytes = await readRegularFile(folder.entry(name), limits).catch(() => undefined)
    },
  )
  return bytes
}

/** Does nothing when the directory does not exist or is a link. */
const within = async (
  hold: () => Promise<HeldDirectory>,
  use: (directory: HeldDirectory) => Promise<void>,
): Promise<void> => {
  let directory: HeldDirectory
  try {
    directory = await hold()
  } catch (error) {
    if (error instanceof UntrustedFile) return
    throw error
  }
  try {
    await use(directory)
  } finally {
    await directory.close()
  }
}
