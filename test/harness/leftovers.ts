/**
 * What a test file has left behind. Each file has a temporary folder of its own, and its path is the mark: it is in the environment
 * or on the command line of every process that the file started, and in the path of every mount.
 */
import { readdirSync, readFileSync } from "node:fs"
import { rm } from "node:fs/promises"
import { commandOf, listProcesses, portsOf } from "../../src/runner/host/processes.ts"

const readText = (path: string): string => {
  try {
    return readFileSync(path, "latin1")
  } catch {
    // The process has ended, or belongs to another user.
    return ""
  }
}

const markedProcesses = (mark: string): readonly number[] =>
  listProcesses()
    .filter(({ pid, isZombie }) => !isZombie && pid !== process.pid)
    .map(({ pid }) => pid)
    .filter(
      (pid) =>
        readText(`/proc/${pid}/environ`).includes(mark) ||
        readText(`/proc/${pid}/cmdline`).includes(mark),
    )

const mountsBelow = (folder: string): readonly string[] =>
  readText("/proc/self/mountinfo")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((path) => path.startsWith(`${folder}/`))

export interface Leftovers {
  readonly processes: readonly number[]
  /** Readable lines: processes with their ports, mounts, files. */
  readonly lines: readonly string[]
}

export const findLeftovers = (folder: string): Leftovers => {
  const processes = markedProcesses(folder)
  return {
    processes,
    lines: [
      ...processes.map((pid) => {
        const ports = portsOf([pid])
        return `process ${pid}: ${commandOf(pid)}${ports.length > 0 ? ` (listens on ${ports.join(", ")})` : ""}`
      }),
      ...mountsBelow(folder).map((path) => `mount ${path}`),
      ...readdirSync(folder).map((name) => `file ${name}`),
    ],
  }
}

/** Ends and removes everything, so that the next file starts on clean ground. */
export const clearLeftovers = async (folder: string): Promise<void> => {
  for (let round = 0; round < 20; round += 1) {
    const processes = markedProcesses(folder)
    if (processes.length === 0) break
    for (const pid of processes) {
      try {
        process.kill(pid, "SIGKILL")
      } catch {
        // It has ended meanwhile.
      }
    }
    // Sleep: the kernel needs a moment to end killed processes, and a new one of them may appear.
    await Bun.sleep(20)
  }
  for (const path of mountsBelow(folder).toReversed())
    Bun.spawnSync(["umount", "--lazy", path], { stderr: "ignore" })
  await rm(folder, { recursive: true, force: true, maxRetries: 3 })
}
