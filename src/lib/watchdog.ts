/**
 * Ends what an owner (a runner, or `serve`) has left running, if the owner has ended without doing so and no other one comes in time.
 * The watchdog is a small shell beside its owner. The next owner ends it, and has a watchdog of its own, before it takes over what was
 * left: so nothing that is in use again is ended. A folder holds a record of every owner and its watchdog.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { dirname, join } from "node:path"
import { z } from "zod"
import type { Clock } from "./clock.ts"
import { parseJson } from "./json.ts"
import { describeError, type Log } from "./log.ts"
import { isAlive, type ProcessIdentity, readProcess } from "./process-identity.ts"
import { replaceFile } from "./replace-file.ts"
import { signalGroup } from "./signal-group.ts"
import {
  OWNER_ENDING,
  registerScript,
  timesOf,
  WATCHDOG_ENDING,
  watchdogScript,
} from "./watchdog-script.ts"

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
  /** When nothing is left that it, or that of an owner which has been killed since, would have to end. */
  readonly release: () => void
}

const recordSchema = z.object({
  owner: z.object({ pid: z.int().positive(), startTime: z.int() }),
})

const AGAIN_MS = 1000

export const startWatchdog = (options: WatchdogOptions): Watchdog => {
  const { folder, clock, log } = options
  const record = join(folder, crypto.randomUUID())
  // First of all: from here on the watchdogs of former owners end nothing.
  const isRecorded = writeOwner(record, log)
  let isReleased = false
  let child: Bun.Subprocess<"pipe", "ignore", "ignore"> | undefined
  let cancel = () => {}

  const start = (): void => {
    if (isReleased || options.seconds === 0) return
    try {
      child = spawnWatchdog(options, isRecorded ? record : "")
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
  const isSuccessor = endFormer(folder)
  return {
    isSuccessor,
    pid: () => child?.pid,
    release: () => {
      isReleased = true
      cancel()
      child?.kill("SIGKILL")
      endFormer(folder)
      removeRecord(record)
    },
  }
}

/** On a full disk the watchdog works all the same. The next owner does not find it, and it ends nothing while an owner has a record. */
const writeOwner = (record: string, log: Log): boolean => {
  const owner = { pid: process.pid, startTime: readProcess(process.pid)?.startTime ?? 0 }
  try {
    mkdirSync(dirname(record), { recursive: true, mode: 0o700 })
    replaceFile(`${record}${OWNER_ENDING}`, JSON.stringify({ owner }))
    return true
  } catch (error) {
    log.warn("watchdog.not-recorded", { error: describeError(error) })
    return false
  }
}

/** For the command of a watchdog: an owner lives, so nothing is to be ended. */
export const hasOwner = (folder: string): boolean =>
  recordsIn(folder).some((record) => isAliveIn(readOwner(record)))

const spawnWatchdog = (
  { seconds, command, environment, prepare = ":" }: WatchdogOptions,
  record: string,
) => {
  // The first line names it in a list of processes.
  const script = `# sandpiper watchdog\n${prepare}\n${registerScript}${watchdogScript(timesOf(seconds))}`
  const child = Bun.spawn(["/bin/sh", "-c", script, "sh", record, ...command], {
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
const endFormer = (folder: string): boolean => {
  const former = recordsIn(folder).filter((record) => !isAliveIn(readOwner(record)))
  for (const record of former) {
    removeFile(`${record}${OWNER_ENDING}`)
    const watchdog = readWatchdog(record)
    if (watchdog && isAlive(watchdog)) signalGroup(watchdog.pid, "SIGKILL")
    removeRecord(record)
  }
  return former.length > 0
}

/** The paths of all records, without their endings. */
const recordsIn = (folder: string): readonly string[] => {
  const names = namesIn(folder).flatMap((name) =>
    [OWNER_ENDING, WATCHDOG_ENDING].flatMap((ending) =>
      name.endsWith(ending) ? [name.slice(0, -ending.length)] : [],
    ),
  )
  return [...new Set(names)].map((name) => join(folder, name))
}

const namesIn = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder)
  } catch {
    // It was removed together with the state directory.
    return []
  }
}

const isAliveIn = (owner: ProcessIdentity | undefined): boolean =>
  owner !== undefined && isAlive(owner)

const readOwner = (record: string): ProcessIdentity | undefined =>
  recordSchema.safeParse(parseJson(readText(`${record}${OWNER_ENDING}`))).data?.owner

const readWatchdog = (record: string): ProcessIdentity | undefined => {
  const [pid, startTime] = readText(`${record}${WATCHDOG_ENDING}`).trim().split(" ").map(Number)
  // A signal to the group 1 would go to every process of the user.
  return pid !== undefined && pid > 1 && startTime !== undefined ? { pid, startTime } : undefined
}

const readText = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}

const removeRecord = (record: string): void => {
  removeFile(`${record}${OWNER_ENDING}`)
  removeFile(`${record}${WATCHDOG_ENDING}`)
}

const removeFile = (file: string): void => {
  try {
    rmSync(file, { force: true })
  } catch {
    // It stays, and names a process that has ended.
  }
}
