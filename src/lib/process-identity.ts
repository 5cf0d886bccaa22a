/** One process as /proc shows it, told apart from a later one with the same pid. */
import { readFileSync } from "node:fs"

/** A pid is reused after a while; together with its start time it identifies one process. */
export interface ProcessIdentity {
  readonly pid: number
  /** Clock ticks since the machine's boot. */
  readonly startTime: number
}

export interface ProcessRow extends ProcessIdentity {
  readonly parent: number
  /** It has exited, and its parent has not read the exit code yet. */
  readonly isZombie: boolean
}

/** The fields of `/proc/<pid>/stat` after the name, which may contain spaces and parentheses: state, parent, group, session. */
export const statFields = (text: string): readonly string[] =>
  text.slice(text.lastIndexOf(")") + 2).split(" ")

export const parseStat = (text: string): ProcessRow | undefined => {
  const pid = Number.parseInt(text, 10)
  const fields = statFields(text)
  const [state, parent] = fields
  const threads = Number(fields[17])
  const startTime = Number(fields[19])
  if (!text.includes(")") || !Number.isInteger(pid) || !Number.isInteger(startTime))
    return undefined
  // The state is that of the first thread. While another thread lives, so do the process's files and ports.
  const isZombie = (state === "Z" && !(threads > 1)) || state === "X"
  return { pid, parent: Number(parent), startTime, isZombie }
}

export const readProcess = (pid: number): ProcessRow | undefined => {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return undefined
  }
}

/** True if exactly this process is running, and not another with the same pid. */
export const isAlive = ({ pid, startTime }: ProcessIdentity): boolean => {
  const now = readProcess(pid)
  return now !== undefined && now.startTime === startTime && !now.isZombie
}
