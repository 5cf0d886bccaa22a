/** Processes as /proc shows them: who is whose child, who is still the same, who holds a port, and how they end. */
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs"
import { type Clock, sleep } from "../../lib/clock.ts"

/** A pid alone is used again; together with the time of its start it names one process for ever. */
export interface ProcessIdentity {
  readonly pid: number
  /** Clock ticks since the machine's boot. */
  readonly startTime: number
}

export interface ProcessRow extends ProcessIdentity {
  readonly parent: number
  /** Gone but for its entry: nobody has asked for its exit code yet. */
  readonly isZombie: boolean
}

/** `/proc/<pid>/stat`; the name in it may hold spaces and parentheses, so fields count from the last one. */
export const parseStat = (text: string): ProcessRow | undefined => {
  const nameEnds = text.lastIndexOf(")")
  const pid = Number.parseInt(text, 10)
  const fields = text.slice(nameEnds + 2).split(" ")
  const [state, parent] = fields
  const startTime = Number(fields[19])
  if (nameEnds < 0 || !Number.isInteger(pid) || !Number.isInteger(startTime)) return undefined
  return { pid, parent: Number(parent), startTime, isZombie: state === "Z" || state === "X" }
}

export const readProcess = (pid: number): ProcessRow | undefined => {
  const text = readProc(`${pid}/stat`)
  return text === undefined ? undefined : parseStat(text)
}

/** The one process that was meant is there and runs. */
export const isAlive = ({ pid, startTime }: ProcessIdentity): boolean => {
  const now = readProcess(pid)
  return now !== undefined && now.startTime === startTime && !now.isZombie
}

/** What it was started as, for people to read. */
export const commandOf = (pid: number): string => {
  const line = (readProc(`${pid}/cmdline`) ?? "").split("\0").join(" ").trim()
  return line === "" ? "unknown" : line.slice(0, 200)
}

export const listProcesses = (): readonly ProcessRow[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcess(Number(name)) ?? [])

/** Children, their children and so on; without the process itself. */
export const descendantsOf = (pid: number, table: readonly ProcessRow[]): readonly ProcessRow[] => {
  const found: ProcessRow[] = []
  const seen = new Set([pid])
  let parents = new Set([pid])
  while (parents.size > 0) {
    const children = table.filter((row) => parents.has(row.parent) && !seen.has(row.pid))
    for (const child of children) seen.add(child.pid)
    found.push(...children)
    parents = new Set(children.map((child) => child.pid))
  }
  return found
}

/**
 * Processes that inherited this variable. A daemon gives up its parent but seldom its environment, so this finds
 * what the tree of parents does not show any more.
 */
export const carriersOf = (
  name: string,
  value: string,
  table: readonly ProcessRow[],
): readonly ProcessRow[] => {
  const entry = `${name}=${value}`
  return table.filter(
    (row) => !row.isZombie && (readProc(`${row.pid}/environ`) ?? "").split("\0").includes(entry),
  )
}

/** Who listens on that port of this machine. */
export const listenerOf = (port: number): ProcessIdentity | undefined => {
  const inodes = new Set(listenersOn(port).map(({ inode }) => inode))
  if (inodes.size === 0) return undefined
  return listProcesses().find(({ pid }) => socketsOf(pid)?.some((inode) => inodes.has(inode)))
}

/** Somebody listens there, be it one that we may not look into. */
export const isTaken = (port: number): boolean => listenersOn(port).length > 0

/** Asked before anyone connects: a connection to a port where nobody listens may connect to itself and take it. */
export const listensOn = (pid: number, port: number): boolean => {
  const sockets = socketsOf(pid)
  // The kernel takes milliseconds to write its table of sockets: it is not asked while the process has none.
  if (sockets?.length === 0) return false
  const listeners = listenersOn(port)
  if (listeners.length === 0) return false
  if (sockets !== undefined) return listeners.some(({ inode }) => sockets.includes(inode))
  // A container's root may not look into another user's process; whose socket it is stands in the table all the same.
  const uid = userOf(pid)
  return listeners.some((listener) => listener.uid === uid)
}

interface Listener {
  readonly inode: string
  readonly uid: number
}

const listenersOn = (port: number): readonly Listener[] =>
  ["net/tcp", "net/tcp6"].flatMap((file) => parseListeners(readProc(file) ?? "", port))

const LISTEN = "0A"

/** The sockets of `/proc/net/tcp` that listen on the port. */
export const parseListeners = (table: string, port: number): readonly Listener[] => {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`
  return table.split("\n").flatMap((line) => {
    const [, local = "", , state, , , , uid, , inode] = line.trim().split(/\s+/)
    const isListener = state === LISTEN && local.endsWith(suffix)
    return isListener && inode !== undefined ? [{ inode, uid: Number(uid) }] : []
  })
}

/** The inodes of its sockets; nothing when they are closed to us. */
const socketsOf = (pid: number): readonly string[] | undefined => {
  try {
    const links = readdirSync(`/proc/${pid}/fd`).map((fd) => readLink(`/proc/${pid}/fd/${fd}`))
    if (links.length > 0 && links.every((link) => link === "")) return undefined
    return links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? [])
  } catch {
    return undefined
  }
}

const userOf = (pid: number): number | undefined => {
  try {
    return statSync(`/proc/${pid}`).uid
  } catch {
    return undefined
  }
}

export type Signal = "SIGTERM" | "SIGKILL"

/** Signals a process if it is still the one that was meant; one that is gone is no failure. */
export const signalProcess = (identity: ProcessIdentity, signal: Signal): void => {
  if (!isAlive(identity)) return
  try {
    process.kill(identity.pid, signal)
  } catch {
    // It ended between the look and the signal, or belongs to another user: the caller looks again.
  }
}

const POLL_MS = 20

/** Resolves true when it is gone within `ms`. */
const waitForEnd = async (
  identity: ProcessIdentity,
  ms: number,
  clock: Clock,
): Promise<boolean> => {
  const until = clock.now() + ms
  while (isAlive(identity)) {
    if (clock.now() >= until) return false
    await sleep(clock, POLL_MS)
  }
  return true
}

const ROUNDS = 5

/**
 * Ends every process that `find` finds, again and again until it finds none: one that forks while it is being
 * ended leaves a child for the next round. Returns how many were ended.
 */
export const endAll = async (find: () => readonly ProcessRow[], clock: Clock): Promise<number> => {
  let ended = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    const left = find().filter(isAlive)
    if (left.length === 0) return ended
    for (const row of left) signalProcess(row, "SIGKILL")
    await Promise.all(left.map((row) => waitForEnd(row, 1000, clock)))
    ended += left.length
  }
  return ended
}

const readProc = (path: string): string | undefined => {
  try {
    return readFileSync(`/proc/${path}`, "utf8")
  } catch {
    return undefined
  }
}

const readLink = (path: string): string => {
  try {
    return readlinkSync(path)
  } catch {
    return ""
  }
}

/** The same, as one value to hand to whoever starts and ends processes. */
export const createProcesses = (clock: Clock) => ({
  find: readProcess,
  isAlive,
  descendants: (pid: number) => descendantsOf(pid, listProcesses()),
  carriers: (name: string, value: string) => carriersOf(name, value, listProcesses()),
  listensOn,
  listener: (port: number) => {
    const found = listenerOf(port)
    return found && { pid: found.pid, command: commandOf(found.pid) }
  },
  signal: signalProcess,
  waitForEnd: (identity: ProcessIdentity, ms: number) => waitForEnd(identity, ms, clock),
  endAll: (find: () => readonly ProcessRow[]) => endAll(find, clock),
})
