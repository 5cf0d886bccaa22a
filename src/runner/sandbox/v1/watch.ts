/**
 * Reports changes below a directory of the workspace, collected for a short time. Directories are watched by their open
 * descriptors, so a link that is planted later is not followed. `.git` and `node_modules` are left out.
 */
import { type FSWatcher, watch } from "node:fs"
import { lstat, opendir } from "node:fs/promises"
import type { Clock } from "../../../lib/clock.ts"
import type { HeldDirectory } from "../../../lib/untrusted-files.ts"
import type { Files } from "./files.ts"

export interface Changes {
  /** Absolute paths, sorted. */
  readonly paths: readonly string[]
  /** More paths have changed than `paths` names. */
  readonly truncated: boolean
}

export interface Watch {
  /** Some directories are not watched, because there are too many. */
  readonly truncated: boolean
  readonly close: () => Promise<void>
}

const COLLECT_MS = 100
const MOST_PATHS = 1000
const MOST_DIRECTORIES = 1000
const LEFT_OUT = new Set([".git", "node_modules"])

export const watchDirectory = async (
  files: Files,
  path: string,
  recursive: boolean,
  clock: Clock,
  onChanges: (changes: Changes) => void,
): Promise<Watch> => {
  const watched = new Map<
    string,
    { readonly directory: HeldDirectory; readonly watcher: FSWatcher }
  >()
  let changed = new Set<string>()
  let isFull = false
  let isTruncated = false
  let isClosed = false
  let cancel: (() => void) | undefined

  const flush = () => {
    cancel = undefined
    const paths = [...changed].toSorted()
    const truncated = isFull
    changed = new Set()
    isFull = false
    onChanges({ paths, truncated })
  }
  const report = (changedPath: string) => {
    if (changed.size < MOST_PATHS) changed.add(changedPath)
    else isFull = true
    cancel ??= clock.after(COLLECT_MS, flush)
  }

  const add = async (directoryPath: string, isNew = false): Promise<void> => {
    if (watched.has(directoryPath)) return
    if (watched.size >= MOST_DIRECTORIES) {
      isTruncated = true
      return
    }
    const directory = await files.hold(directoryPath)
    if (isClosed) return directory.close()
    const watcher = watch(directory.self, (_event, name) => {
      if (name === null) return
      const child = `${directoryPath}/${name}`
      report(child)
      if (recursive && !LEFT_OUT.has(name)) void addIfDirectory(directory, name, child)
    })
    watcher.on("error", () => {})
    watched.set(directoryPath, { directory, watcher })
    if (!recursive) return
    for await (const entry of await opendir(directory.self)) {
      const child = `${directoryPath}/${entry.name}`
      if (isNew) report(child)
      if (entry.isDirectory() && !LEFT_OUT.has(entry.name)) await add(child, isNew)
    }
  }
  /** A new directory may already have files in it when it is found: they are reported too. */
  const addIfDirectory = async (parent: HeldDirectory, name: string, child: string) => {
    try {
      if (isClosed || watched.has(child)) return
      if ((await lstat(parent.entry(name))).isDirectory()) await add(child, true)
    } catch {
      // It is gone again.
    }
  }

  await add(files.absolute(path))
  return {
    truncated: isTruncated,
    close: async () => {
      isClosed = true
      cancel?.()
      for (const { directory, watcher } of watched.values()) {
        watcher.close()
        await directory.close()
      }
      watched.clear()
    },
  }
}
