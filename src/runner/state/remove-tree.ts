/** Removes or moves a directory that the agent could write to. Symbolic links in it are not followed. */
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
} from "node:fs"
import { dirname, join } from "node:path"

export const removeTree = (path: string): void => {
  try {
    rmSync(path, { recursive: true, force: true })
  } catch {
    // A directory without the right to write, as in the module cache of Go.
    openTree(path)
    rmSync(path, { recursive: true, force: true })
  }
}

const openTree = (path: string): void => {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  chmodSync(path, 0o700)
  for (const name of readdirSync(path)) openTree(join(path, name))
}

/** Complete at its new place, or still at the old one. Does nothing if there is nothing to move. */
export const moveTree = (from: string, to: string): void => {
  const found = lstatSync(from, { throwIfNoEntry: false })
  if (found === undefined) return
  // The move of a killed process, which has not removed what it has copied.
  if (found.isDirectory() && existsSync(to)) return removeTree(from)
  mkdirSync(dirname(to), { recursive: true, mode: 0o700 })
  try {
    renameSync(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error
    // A directory of a lower layer of an overlay, as the disk of a restored snapshot has, cannot be renamed.
    const draft = `${to}.moving`
    if (existsSync(draft)) removeTree(draft)
    cpSync(from, draft, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
    renameSync(draft, to)
    removeTree(from)
  }
}
