/**
 * Reports the state of the repository and its changed files after each turn and when the tree changes, whichever program
 * changed it. Directories with files that git does not ignore are watched; changes are collected for a moment.
 */
import { existsSync, type FSWatcher, watch } from "node:fs"
import { dirname, join } from "node:path"
import type { Clock } from "../../lib/clock.ts"
import { describeError, type Log } from "../../lib/log.ts"
import { createTimers } from "../../lib/timer.ts"
import type { Outbound, OutboundFrame } from "../../wire/frames/index.ts"
import type { Git } from "./git.ts"
import type { Workspace } from "./workspace-changes.ts"

type ChangedFiles = Outbound<"files-changed">["files"]

export interface ChangeReporterOptions {
  readonly workDir: string
  readonly git: Git
  readonly workspace: Workspace
  readonly send: (frame: OutboundFrame) => void
  /** Something may have changed in the tree. */
  readonly onChange?: () => void
  readonly clock: Clock
  readonly log: Log
}

export interface ChangeReporter {
  readonly start: () => void
  /** A turn has ended; `files` are the ones that the agent reports as changed. */
  readonly turnEnded: (files: ChangedFiles) => void
  readonly stop: () => void
}

/** A change is reported this long after the last one, and a tree that changes all the time at this interval. */
const QUIET_MS = 400
const MAX_WAIT_MS = 3000
/** Beyond this many directories the tree is read at an interval instead. */
const MAX_WATCHED = 2000
const POLL_MS = 15_000

export const createChangeReporter = (options: ChangeReporterOptions): ChangeReporter => {
  const { workDir, git, workspace, send, clock, log } = options
  const timers = createTimers<"quiet" | "poll">(clock.after)
  const watchers = new Map<string, FSWatcher>()
  let fromAgent: ChangedFiles = []
  let last = { state: "", files: "[]" }
  let waitingSince: number | undefined
  let isReading = false
  let isStale = false
  let isStopped = false

  const schedule = () => {
    if (isStopped) return
    options.onChange?.()
    const now = clock.now()
    waitingSince ??= now
    const ms = Math.max(0, Math.min(QUIET_MS, waitingSince + MAX_WAIT_MS - now))
    timers.arm("quiet", ms, () => void read())
  }

  const read = async (): Promise<void> => {
    waitingSince = undefined
    if (isReading) {
      isStale = true
      return
    }
    isReading = true
    isStale = false
    try {
      await report()
    } catch (error) {
      log.warn("workspace.read-failed", { error: describeError(error) })
    }
    isReading = false
    if (isStale) schedule()
  }

  const report = async () => {
    const status = await workspace.readStatus()
    const files = merge(fromAgent, status ? await workspace.readFiles(status) : [])
    const state = status && (await workspace.readState(status))
    if (isStopped) return
    if (state && JSON.stringify(state) !== last.state) {
      last = { ...last, state: JSON.stringify(state) }
      send(state)
    }
    if (JSON.stringify(files) !== last.files) {
      last = { ...last, files: JSON.stringify(files) }
      send({ type: "files-changed", files })
    }
    await watchTree(status !== undefined)
  }

  /** git wins: it also knows what other programs have changed. A file that is gone is not shown as changed. */
  const merge = (agent: ChangedFiles, known: ChangedFiles): ChangedFiles => {
    const paths = new Set(known.map(({ path }) => path))
    return [
      ...known,
      ...agent.filter(
        ({ path, status }) =>
          !paths.has(path) && (status === "deleted" || existsSync(join(workDir, path))),
      ),
    ]
  }

  const watchTree = async (isRepository: boolean) => {
    const wanted = new Set([workDir])
    if (isRepository) {
      const kept = await git(["ls-files", "-z", "-co", "--exclude-standard"])
      const empty = await git(["ls-files", "-z", "-o", "--exclude-standard", "--directory"])
      for (const path of kept.split("\0")) addParents(wanted, path)
      for (const path of empty.split("\0"))
        if (path.endsWith("/")) wanted.add(join(workDir, path.slice(0, -1)))
      const repository = join(workDir, ".git")
      for (const path of [repository, join(repository, "refs", "heads")]) wanted.add(path)
    }
    const isTooMany = wanted.size > MAX_WATCHED
    for (const [path, watcher] of watchers) {
      if (wanted.has(path) && !isTooMany) continue
      watcher.close()
      watchers.delete(path)
    }
    if (isTooMany) return timers.arm("poll", POLL_MS, () => void read())
    for (const path of wanted) watchDirectory(path)
  }

  const addParents = (wanted: Set<string>, path: string) => {
    for (let at = dirname(path); path !== "" && at !== "."; at = dirname(at)) {
      if (wanted.has(join(workDir, at))) return
      wanted.add(join(workDir, at))
    }
  }

  const watchDirectory = (path: string) => {
    if (watchers.has(path) || isStopped || !existsSync(path)) return
    try {
      const watcher = watch(path, { persistent: false }, schedule)
      watcher.on("error", () => {
        watcher.close()
        watchers.delete(path)
      })
      watchers.set(path, watcher)
    } catch (error) {
      log.debug("workspace.not-watched", { error: describeError(error) })
      timers.arm("poll", POLL_MS, () => void read())
    }
  }

  return {
    start: schedule,
    turnEnded: (files) => {
      if (files.length > 0) fromAgent = files
      schedule()
    },
    stop: () => {
      isStopped = true
      timers.cancel("quiet")
      timers.cancel("poll")
      for (const watcher of watchers.values()) watcher.close()
      watchers.clear()
    },
  }
}
