/** Processes as /proc shows them: identity, descendants, listening ports; and ending them. */
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs"
import { type Clock, sleep } from "../../lib/clock.ts"
import {
  isAlive,
  parseStat,
  type ProcessIdentity,
  type ProcessRow,
  readProcess,
  statFields,
} from "../../lib/process-identity.ts"

/** The command line, cut, for log lines. */
export const commandOf = (pid: number): string => {
  const line = (readProc(`${pid}/cmdline`) ?? "").split("\0").join(" ").trim()
  return line === "" ? "unknown" : line.slice(0, 200)
}

/** The rows of the processes whose `stat` passes; each file is read once. */
const processesWhere = (passes: (stat: string) => boolean): readonly ProcessRow[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const stat = readProc(`${name}/stat`)
      return stat !== undefined && passes(stat) ? (parseStat(stat) ?? []) : []
    })

export const listProcesses = (): readonly ProcessRow[] => processesWhere(() => true)

/**
 * The processes of the session that this process leads or has led. A shell gives each of its programs a process group of
 * its own, but they stay in its session.
 */
export const sessionMembers = (leader: number): readonly ProcessRow[] =>
  processesWhere((stat) => Number(statFields(stat)[3]) === leader)

/** All descendants, without the process itself. */
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
 * Processes that inherited this variable. A daemon leaves its parent but usually keeps its environment, so this finds
 * processes that are no longer descendants.
 */
export const carriersOf = (
  name: string,
  value: string,
  table: readonly ProcessRow[],
): readonly ProcessRow[] => {
  const entry = `${name}=${value}`
  return table.filter((row) => !row.isZombie && entriesOf(row.pid).includes(entry))
}

const entriesOf = (pid: number): readonly string[] => (readProc(`${pid}/environ`) ?? "").split("\0")

/** A variable of its environment; undefined also if this user may not read it. */
export const variableOf = (pid: number, name: string): string | undefined =>
  entriesOf(pid)
    .find((entry) => entry.startsWith(`${name}=`))
    ?.slice(name.length + 1)

/** The process that leads its session, which may have ended. */
export const sessionOf = (pid: number): number | undefined => {
  const stat = readProc(`${pid}/stat`)
  return stat === undefined ? undefined : Number(statFields(stat)[3])
}

/** The process that listens on this port. */
export const listenerOf = (port: number): ProcessIdentity | undefined => {
  const inodes = new Set(listenersOn(port).map(({ inode }) => inode))
  if (inodes.size === 0) return undefined
  return listProcesses().find(({ pid }) => socketsOf(pid)?.some((inode) => inodes.has(inode)))
}

/** True if any process listens on the port, even one that this user may not inspect. */
export const isTaken = (port: number): boolean => listenersOn(port).length > 0

/** Check this before connecting: a connection to a port without a listener may connect to itself and occupy it. */
export const listensOn = (pid: number, port: number): boolean => {
  const sockets = socketsOf(pid)
  // Reading the kernel's socket table takes milliseconds: skip it while the process has no sockets.
  if (sockets?.length === 0) return false
  const listeners = listenersOn(port)
  if (listeners.length === 0) return false
  if (sockets !== undefined) return listeners.some(({ inode }) => sockets.includes(inode))
  // In a container, root may not inspect another user's process; the table still contains the socket's user.
  const uid = userOf(pid)
  return listeners.some((listener) => listener.uid === uid)
}

/** The ports on which these processes listen, in ascending order. */
export const portsOf = (pids: readonly number[]): readonly number[] => {
  const inodes = new Set(pids.flatMap((pid) => socketsOf(pid) ?? []))
  if (inodes.size === 0) return []
  const ports = ["net/tcp", "net/tcp6"].flatMap((file) =>
    (readProc(file) ?? "").split("\n").flatMap((line) => {
      const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/)
      const port = Number.parseInt(local.slice(local.lastIndexOf(":") + 1), 16)
      return state === LISTEN && inodes.has(inode) ? [port] : []
    }),
  )
  return [...new Set(ports)].toSorted((a, b) => a - b)
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

/** The inodes of the process's sockets; undefined if this user may not read them. */
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

/** Signals exactly this process; does nothing if it has ended. */
export const signalProcess = (identity: ProcessIdentity, signal: Signal): void => {
  if (!isAlive(identity)) return
  try {
    process.kill(identity.pid, signal)
  } catch {
    // It ended after the check, or belongs to another user: the caller checks again.
  }
}

const POLL_MS = 20

/** Resolves to true if the process ends within `ms`. */
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

/** A thread of the kernel, which never has a command line (`PF_KTHREAD`). */
const KERNEL_THREAD = 0x00_20_00_00

/** True while some process executes another program: it shows neither the old environment nor the new one for a moment. */
export const isAnyStarting = (): boolean =>
  processesWhere((stat) => (Number(statFields(stat)[6]) & KERNEL_THREAD) === 0).some(
    ({ pid, isZombie }) =>
      !isZombie && readProc(`${pid}/cmdline`) === "" && readProc(`${pid}/environ`) === "",
  )

const ROUNDS = 5
/** For the process that starts: one second. */
const STARTING_ROUNDS = 50

/**
 * Kills every process that `find` returns, and repeats until it returns none: a process that forks while it is killed
 * leaves a child for the next round. If `find` looks at environments, it does not recognize a child that is starting: with
 * `isStarting` it is asked again. Resolves to the number of killed processes.
 */
export const endAll = async (
  find: () => readonly ProcessRow[],
  clock: Clock,
  isStarting = () => false,
): Promise<number> => {
  let ended = 0
  let waits = 0
  for (let round = 0; round < ROUNDS;) {
    // Looked at before `find`: a process that has started in between is found.
    const mayBeMissed = isStarting()
    const left = find().filter(isAlive)
    if (left.length === 0) {
      if (!mayBeMissed || waits === STARTING_ROUNDS) return ended
      waits += 1
      await sleep(clock, POLL_MS)
      continue
    }
    round += 1
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

/** These functions as one value, for injection. */
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
  endAll: (find: () => readonly ProcessRow[]) => endAll(find, clock, isAnyStarting),
})
