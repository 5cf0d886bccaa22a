/**
 * Ends what an owner (a runner, or `serve`) has left running, if the owner has ended without doing so and no other one comes in time.
 * The watchdog is a small shell beside its owner. The next owner ends it, and has a watchdog of its own, before it takes over what was
 * left: so nothing that is in use again is ended. A folder holds a record of every owner and its watchdog.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"
import type { Clock } from "./clock.ts"
import { readJson } from "./json.ts"
import { describeError, type Log } from "./log.ts"
import { isAlive, type ProcessIdentity, readProcess } from "./process-identity.ts"
import { replaceFile } from "./replace-file.ts"
import { signalGroup } from "./signal-group.ts"
import { timesOf, watchdogScript } from "./watchdog-script.ts"

export interface WatchdogOptions {
  /** Holds the records. */
  readonly folder: string
  /** After this time without an owner the command runs. 0: there is no watchdog. */
  readonly seconds: number
  /** It ends what is left, and looks with `hasOwner` whether it may. */
  readonly command: readonly string[]
  /** Of the owner. The command gets only what it needs to find programs and temporary files. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** A shell command that runs first, for example one that joins a group of processes. */
  readonly prepare?: string | undefined
  readonly clock: Clock
  readonly log: Log
}

export interface Watchdog {
  /** An owner before this one has ended without its `release`: something may be left of it. */
  readonly isSuccessor: boolean
  readonly pid: () => number | undefined
  /** When nothing is left that it would have to end. */
  readonly release: () => void
}

const identity = z.object({ pid: z.int().positive(), startTime: z.int() })
const recordSchema = z.object({ owner: identity, watchdog: identity.optional() })
type WatchdogRecord = z.output<typeof recordSchema>

const AGAIN_MS = 1000

export const startWatchdog = (options: WatchdogOptions): Watchdog => {
  const { folder, clock, log } = options
  const file = join(folder, `${crypto.randomUUID()}.json`)
  const owner = identityOf(process.pid)
  const write = (record: WatchdogRecord): void => {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      replaceFile(file, JSON.stringify(record))
    } catch (error) {
      // On a full disk the watchdog works. The next owner does not find it, and it ends nothing while an owner has a record.
      log.warn("watchdog.not-recorded", { error: describeError(error) })
    }
  }
  // First of all: from here on the watchdogs of former owners end nothing.
  write({ owner })
  let isReleased = false
  let child: Bun.Subprocess<"pipe", "ignore", "ignore"> | undefined
  let cancel = () => {}

  const start = (): void => {
    if (isReleased || options.seconds === 0) return
    try {
      child = spawnWatchdog(options)
      write({ owner, watchdog: identityOf(child.pid) })
      void child.exited.then(startAgain)
    } catch (error) {
      log.warn("watchdog.off", { error: describeError(error) })
    }
  }
  const startAgain = (): void => {
    if (isReleased) return
    log.warn("watchdog.ended", { pid: child?.pid })
    cancel = clock.after(AGAIN_MS, start)
  }

  start()
  const isSuccessor = endFormer(folder, file)
  return {
    isSuccessor,
    pid: () => child?.pid,
    release: () => {
      isReleased = true
      cancel()
      child?.kill("SIGKILL")
      removeRecord(file)
    },
  }
}

/** For the command of a watchdog: an owner lives, so nothing is to be ended. */
export const hasOwner = (folder: string): boolean =>
  recordsIn(folder).some(({ record }) => record !== undefined && isAlive(record.owner))

const spawnWatchdog = ({ seconds, command, environment, prepare = ":" }: WatchdogOptions) => {
  // The first line names it in a list of processes.
  const script = `# sandpiper watchdog\n${prepare}\n${watchdogScript(timesOf(seconds))}`
  const child = Bun.spawn(["/bin/sh", "-c", script, "sh", ...command], {
    env: {
      PATH: environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
      ...(environment["TMPDIR"] !== undefined && { TMPDIR: environment["TMPDIR"] }),
    },
    cwd: "/",
    // The other end is held by this process alone: no other child inherits it.
    stdin: "pipe",
    stdout: "ignore",
    stderr: "ignore",
    // A process session and group of its own: a signal to the owner's group does not reach it.
    detached: true,
  })
  child.unref()
  return child
}

/** Ends the watchdogs of owners that have ended, with the commands that they may have become. True if there was such an owner. */
const endFormer = (folder: string, own: string): boolean => {
  let found = false
  for (const { file, record } of recordsIn(folder)) {
    if (file === own || (record !== undefined && isAlive(record.owner))) continue
    const watchdog = record?.watchdog
    if (watchdog !== undefined && isAlive(watchdog)) signalGroup(watchdog.pid, "SIGKILL")
    removeRecord(file)
    found = true
  }
  return found
}

const recordsIn = (
  folder: string,
): readonly { readonly file: string; readonly record: WatchdogRecord | undefined }[] =>
  namesIn(folder)
    .filter((name) => name.endsWith(".json"))
    .map((name) => join(folder, name))
    .map((file) => ({ file, record: readRecord(file) }))

const namesIn = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder)
  } catch {
    // It was removed together with the state directory.
    return []
  }
}

const readRecord = (file: string): WatchdogRecord | undefined => {
  try {
    return readJson(recordSchema, readFileSync(file, "utf8"))
  } catch {
    return undefined
  }
}

const removeRecord = (file: string): void => {
  try {
    rmSync(file, { force: true })
  } catch {
    // It stays, and names an owner that has ended.
  }
}

const identityOf = (pid: number): ProcessIdentity => ({
  pid,
  startTime: readProcess(pid)?.startTime ?? 0,
})
