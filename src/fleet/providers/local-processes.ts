/** Groups of processes on this machine: a cgroup where that is possible, otherwise the process and its descendants. */
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs"
import { basename } from "node:path"
import { agentShellFile } from "../../lib/state-folders.ts"
import { type Cgroup, type Cgroups, cgroupOf, type Resources } from "./local-cgroups.ts"

export interface ProcessIdentity {
  readonly pid: number
  /** In clock ticks since boot: with it a reused pid is not taken for the same process. */
  readonly startTime: string
}

interface ProcessEntry extends ProcessIdentity {
  readonly parent: number
  readonly isZombie: boolean
  /** Stopped by a signal, or ended. */
  readonly isStopped: boolean
}

const readProcess = (pid: number): ProcessEntry | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8")
    // The name in parentheses may contain spaces.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
    return {
      pid,
      parent: Number(fields[1]),
      startTime: fields[19] ?? "",
      isZombie: fields[0] === "Z",
      isStopped: /^[TtZX]$/.test(fields[0] ?? ""),
    }
  } catch {
    return undefined
  }
}

export const identityOf = (pid: number): ProcessIdentity => ({
  pid,
  startTime: readProcess(pid)?.startTime ?? "",
})

export const isAlive = ({ pid, startTime }: ProcessIdentity): boolean => {
  const found = readProcess(pid)
  return found !== undefined && found.startTime === startTime && !found.isZombie
}

/** Its children, by the kernel's own list. Undefined: this kernel has none. */
const childrenOf = (pid: number): readonly number[] | undefined => {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, "utf8")
        .split(" ")
        .filter((text) => text !== "")
        .map(Number),
    )
  } catch {
    return existsSync(`/proc/${process.pid}/task/${process.pid}/children`) ? [] : undefined
  }
}

/** While a sandbox starts it is asked for every few milliseconds, and the machine may have thousands of processes. */
const firstDescendant = (root: number, isWanted: (pid: number) => boolean): number | undefined => {
  const found = [root]
  for (const pid of found) {
    if (isWanted(pid)) return pid
    const children = childrenOf(pid)
    if (children === undefined) return withDescendants(root).find(isWanted)
    found.push(...children)
  }
  return undefined
}

const withDescendants = (root: number): readonly number[] => {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcess(Number(name)) ?? [])
  const found = [root]
  for (const parent of found)
    found.push(...all.filter((one) => one.parent === parent).map(({ pid }) => pid))
  return found
}

const signal = (pids: readonly number[], name: NodeJS.Signals) => {
  for (const pid of pids) {
    try {
      process.kill(pid, name)
    } catch {
      // It has ended in the meantime.
    }
  }
}

export interface ProcessGroup {
  /** Creates the group. Limits need a cgroup. */
  readonly prepare: (resources: Resources) => void
  /** The shell command that puts the shell, and so all that it starts afterwards, into the group. Absent: not needed. */
  readonly join: (resources: Resources) => string | undefined
  readonly freeze: (roots: readonly ProcessIdentity[]) => void
  /** False while a process of a group that is being frozen still runs. */
  readonly isFrozen: (roots: readonly ProcessIdentity[]) => boolean
  readonly thaw: (roots: readonly ProcessIdentity[]) => void
  readonly kill: (roots: readonly ProcessIdentity[]) => void
  readonly members: (roots: readonly ProcessIdentity[]) => readonly number[]
  /** Ends processes that were to join the group and have not done so, also unrecorded ones. */
  readonly killLaunchers: () => void
  /** After all its processes have ended. Throws before. */
  readonly remove: () => void
}

/** Asks the runner of a sandbox to end, by the process that was started for it. */
export const terminate = (launched: ProcessIdentity): void => {
  if (isAlive(launched)) signal([namespaceInit(launched.pid) ?? launched.pid], "SIGTERM")
}

/** Ends the process and its descendants, children before parents. */
export const killTree = (pid: number): void => signal(withDescendants(pid).toReversed(), "SIGKILL")

/**
 * The first process of the sandbox's PID namespace, by its number on this machine. It is the child of bubblewrap: at first
 * bubblewrap itself, which sets the sandbox up, then the sandbox's program. Only the latter counts.
 */
export const namespaceInit = (root: number): number | undefined =>
  firstDescendant(root, (pid) => {
    const own = namespaceStatus(pid)
    if (own.name === LAUNCHER || own.numbers.length < 2 || own.numbers.at(-1) !== "1") return false
    return namespaceStatus(own.parent).name === LAUNCHER
  })

/** The parent of a process, as this machine numbers it. */
export const parentOf = (pid: number): number => namespaceStatus(pid).parent

const LAUNCHER = "bwrap"

const namespaceStatus = (pid: number) => {
  try {
    const text = readFileSync(`/proc/${pid}/status`, "utf8")
    return {
      numbers: /^NSpid:\s*(.*)$/m.exec(text)?.[1]?.split(/\s+/) ?? [],
      name: /^Name:\s*(.*)$/m.exec(text)?.[1] ?? "",
      parent: Number(/^PPid:\s*(\d+)$/m.exec(text)?.[1]),
    }
  } catch {
    return { numbers: [], name: "", parent: 0 }
  }
}

/** Processes with one of these texts on their command line. */
const withArgument = (texts: readonly string[]): readonly number[] =>
  readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return []
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, "utf8")
      return texts.some((text) => command.includes(text)) ? [Number(name)] : []
    } catch {
      return []
    }
  })

/** Ends launchers that lost their parent. `places`: paths of one sandbox. */
export const killLaunchers = (...places: readonly string[]): void =>
  signal(withArgument(places), "SIGKILL")

const living = (roots: readonly ProcessIdentity[]): readonly number[] =>
  roots.filter(isAlive).flatMap(({ pid }) => withDescendants(pid))

/** Without a cgroup. A process whose parents have all ended is missed, unless it is in a PID namespace. */
const descendants: ProcessGroup = {
  prepare: () => {},
  join: () => undefined,
  freeze: (roots) => signal(living(roots), "SIGSTOP"),
  isFrozen: (roots) => living(roots).every((pid) => readProcess(pid)?.isStopped !== false),
  thaw: (roots) => signal(living(roots), "SIGCONT"),
  kill: (roots) => signal(living(roots), "SIGKILL"),
  members: living,
  killLaunchers: () => {},
  remove: () => {},
}

const namespaceOf = (pid: number): string | undefined => {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`)
  } catch {
    return undefined
  }
}

/** All processes of the PID namespace whose first one this is. No process leaves it. */
export const namespaceMembers = (init: number): readonly number[] => {
  const own = namespaceOf(init)
  if (own === undefined) return []
  return readdirSync("/proc").flatMap((name) =>
    /^\d+$/.test(name) && namespaceOf(Number(name)) === own ? [Number(name)] : [],
  )
}

/** The file of its program, by its name and by its place on the disk. */
const programOf = (pid: number) => {
  try {
    const link = `/proc/${pid}/exe`
    const { dev, ino } = statSync(link)
    return { name: basename(readlinkSync(link)), place: `${dev}:${ino}` }
  } catch {
    return undefined
  }
}

const SHELL = agentShellFile("/")

/** The shell of a command of the agent ends by itself when the command has ended. OpenCode needs its exit code. */
const isAgentShell = (pid: number): boolean => {
  try {
    const [, script = ""] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")
    return script.endsWith(SHELL)
  } catch {
    return false
  }
}

/**
 * These processes without the runner. `sparesAgent`: also without OpenCode, the shells of its commands and the runner's own helpers. They are
 * found by their program and their parent; the agent can start such a process, too, so no limit depends on it.
 */
export const withoutRunner = (
  pids: readonly number[],
  runner: number,
  sparesAgent: boolean,
): readonly number[] => {
  const own = programOf(runner)
  const isOpenCode = (pid: number): boolean => programOf(pid)?.name === "opencode"
  const isSpared = (pid: number): boolean => {
    const parent = readProcess(pid)?.parent
    if (parent === runner) return isOpenCode(pid) || programOf(pid)?.place === own?.place
    return parent !== undefined && isAgentShell(pid) && isOpenCode(parent)
  }
  return pids.filter((pid) => pid !== runner && !(sparesAgent && isSpared(pid)))
}

/** True if one of them still ran. */
export const endProcesses = (pids: readonly number[]): boolean => {
  const running = pids.filter((pid) => readProcess(pid)?.isZombie === false)
  signal(running, "SIGKILL")
  return running.length > 0
}

/** The command that runs another one after the shell command `join`. */
export const joining = (join: string | undefined): readonly string[] =>
  join === undefined ? [] : ["/bin/sh", "-c", `${join} && exec "$@"`, "sh"]

/**
 * A launcher joins its group itself. One that was stopped before, by a signal or by a machine without memory, is not in it: it is
 * ended by its identity, and by its command line if its identity was not recorded any more.
 */
const inCgroup = (cgroup: Cgroup): ProcessGroup => ({
  ...cgroup,
  kill: (roots) => {
    cgroup.kill()
    const outside = roots.filter((root) => isAlive(root) && !cgroup.has(root.pid))
    signal(outside.flatMap(({ pid }) => withDescendants(pid)).toReversed(), "SIGKILL")
  },
  killLaunchers: () => killLaunchers(cgroup.join({})),
})

export const processGroup = (cgroups: Cgroups, name: string): ProcessGroup =>
  cgroups.root === undefined ? descendants : inCgroup(cgroupOf(cgroups, cgroups.root, name))
