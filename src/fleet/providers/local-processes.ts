/** Groups of processes on this machine: a cgroup where that is possible, otherwise the process and its descendants. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

export interface ProcessIdentity {
  readonly pid: number
  /** In clock ticks since boot: with it a reused pid is not taken for the same process. */
  readonly startTime: string
}

interface ProcessEntry extends ProcessIdentity {
  readonly parent: number
  readonly isZombie: boolean
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
  /** The shell command that puts the process into the group before it starts. */
  readonly prefix: readonly string[]
  readonly freeze: (root: ProcessIdentity) => void
  readonly thaw: (root: ProcessIdentity) => void
  readonly kill: (root: ProcessIdentity) => void
  /** After all its processes have ended. */
  readonly remove: () => void
}

/** The directory of the version 2 hierarchy in which this process may make groups, if there is one. */
export const findCgroupRoot = (): string | undefined =>
  ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].find((root) => {
    if (!existsSync(join(root, "cgroup.procs")) || !existsSync(join(root, "cgroup.controllers")))
      return false
    const probe = join(root, `sandpiper-probe-${process.pid}`)
    try {
      mkdirSync(probe)
      const usable = existsSync(join(probe, "cgroup.freeze"))
      rmdirSync(probe)
      return usable
    } catch {
      return false
    }
  })

/** Freezing and killing a cgroup misses no process, also none that has left its process session. */
const cgroup = (folder: string): ProcessGroup => {
  mkdirSync(folder, { recursive: true })
  const write = (file: string, text: string) => {
    if (existsSync(folder)) writeFileSync(join(folder, file), text)
  }
  return {
    prefix: ["/bin/sh", "-c", `echo $$ > ${folder}/cgroup.procs && exec "$@"`, "sh"],
    freeze: () => write("cgroup.freeze", "1"),
    thaw: () => write("cgroup.freeze", "0"),
    kill: () => {
      write("cgroup.freeze", "0")
      write("cgroup.kill", "1")
    },
    remove: () => {
      if (existsSync(folder)) rmdirSync(folder)
    },
  }
}

/** Without a cgroup. A process whose parents have all ended is missed. */
const descendants: ProcessGroup = {
  prefix: [],
  freeze: ({ pid }) => signal(withDescendants(pid), "SIGSTOP"),
  thaw: ({ pid }) => signal(withDescendants(pid), "SIGCONT"),
  kill: (root) => {
    if (isAlive(root)) signal(withDescendants(root.pid), "SIGKILL")
  },
  remove: () => {},
}

export const processGroup = (cgroupRoot: string | undefined, name: string): ProcessGroup =>
  cgroupRoot === undefined ? descendants : cgroup(join(cgroupRoot, `sandpiper-${name}`))
