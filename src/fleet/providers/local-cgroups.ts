/**
 * Control groups of this machine. Version 2 freezes and kills all processes of a sandbox, with or without controllers.
 * Limits come from the controllers of version 2, or from those of version 1 where version 2 has none.
 */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"

const controllers = ["memory", "pids", "cpu"] as const
type Controller = (typeof controllers)[number]

export interface Resources {
  readonly cpu?: number | undefined
  readonly memoryMiB?: number | undefined
  readonly pids?: number | undefined
}

/** What this process may use. */
export interface Cgroups {
  /** The directory of version 2 in which groups are made. */
  readonly root: string | undefined
  readonly limits:
    | { readonly version: 2 }
    | { readonly version: 1; readonly folders: Readonly<Record<Controller, string>> }
    | undefined
}

export interface Cgroup {
  /** Creates the group with its limits. */
  readonly prepare: (resources: Resources) => void
  /** The shell command that puts the shell, and so all that it starts afterwards, into the group. */
  readonly join: (resources: Resources) => string
  /** The process has joined the group. */
  readonly has: (pid: number) => boolean
  readonly members: () => readonly number[]
  readonly freeze: () => void
  /** False while a process of a group that is being frozen still runs. */
  readonly isFrozen: () => boolean
  readonly thaw: () => void
  readonly kill: () => void
  /** Throws while processes are in it. */
  readonly remove: () => void
}

const canMakeGroup = (folder: string, needs: string): boolean => {
  const probe = join(folder, `sandpiper-probe-${process.pid}`)
  try {
    mkdirSync(probe)
    const usable = existsSync(join(probe, needs))
    rmdirSync(probe)
    return usable
  } catch {
    return false
  }
}

/** The lines of /proc/self/cgroup: the path of this process in each hierarchy. Version 2 has the empty name. */
export const ownPaths = (text: string): ReadonlyMap<string, string> =>
  new Map(
    text
      .split("\n")
      .map((line) => /^\d+:([^:]*):(.*)$/.exec(line))
      .flatMap((match) =>
        match ? (match[1] ?? "").split(",").map((name) => [name, match[2] ?? "/"] as const) : [],
      ),
  )

const enablesControllers = (root: string): boolean => {
  const enabled = () => {
    const text = readFileSync(join(root, "cgroup.subtree_control"), "utf8").split(/\s+/)
    return controllers.every((name) => text.includes(name))
  }
  try {
    if (enabled()) return true
    writeFileSync(
      join(root, "cgroup.subtree_control"),
      controllers.map((name) => `+${name}`).join(" "),
    )
    return enabled()
  } catch {
    return false
  }
}

const oldFolder = (name: Controller, path: string | undefined): string | undefined => {
  const top = join("/sys/fs/cgroup", name)
  const own = join(top, path ?? "/")
  const folder = existsSync(own) ? own : top
  return canMakeGroup(folder, "cgroup.procs") ? folder : undefined
}

export const findCgroups = (): Cgroups => {
  const paths = existsSync("/proc/self/cgroup")
    ? ownPaths(readFileSync("/proc/self/cgroup", "utf8"))
    : new Map<string, string>()
  const mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].filter((folder) =>
    existsSync(join(folder, "cgroup.controllers")),
  )
  // A delegated group of this user, or the top of the hierarchy for root.
  const places = mounts.flatMap((mount) => [mount, join(mount, paths.get("") ?? "/")])
  const root = places.find((folder) => canMakeGroup(folder, "cgroup.freeze"))
  if (root !== undefined && enablesControllers(root)) return { root, limits: { version: 2 } }
  const memory = oldFolder("memory", paths.get("memory"))
  const pids = oldFolder("pids", paths.get("pids"))
  const cpu = oldFolder("cpu", paths.get("cpu"))
  if (memory === undefined || pids === undefined || cpu === undefined)
    return { root, limits: undefined }
  return { root, limits: { version: 1, folders: { memory, pids, cpu } } }
}

const PERIOD = 100_000

/** The file and the value of each limit. */
export const limitFiles = (
  version: 1 | 2,
  { memoryMiB, pids, cpu }: Resources,
): readonly (readonly [controller: Controller, file: string, value: string])[] => {
  const bytes = String((memoryMiB ?? 0) * 1024 * 1024)
  const quota = String(Math.max(1000, Math.round((cpu ?? 0) * PERIOD)))
  const isOld = version === 1
  return [
    ...(memoryMiB === undefined
      ? []
      : ([["memory", isOld ? "memory.limit_in_bytes" : "memory.max", bytes]] as const)),
    ...(memoryMiB === undefined || isOld ? [] : ([["memory", "memory.swap.max", "0"]] as const)),
    ...(pids === undefined ? [] : ([["pids", "pids.max", String(pids)]] as const)),
    ...(cpu === undefined
      ? []
      : isOld
        ? ([["cpu", "cpu.cfs_quota_us", quota]] as const)
        : ([["cpu", "cpu.max", `${quota} ${PERIOD}`]] as const)),
  ]
}

const canWrite = (file: string): boolean => {
  try {
    accessSync(file, constants.W_OK)
    return true
  } catch {
    return false
  }
}

export const cgroupOf = (cgroups: Cgroups, root: string, name: string): Cgroup => {
  const main = join(root, `sandpiper-${name}`)
  const { limits } = cgroups
  const old = limits?.version === 1 ? limits.folders : undefined
  const folderOf = (controller: Controller) =>
    old ? join(old[controller], `sandpiper-${name}`) : main
  const all = old ? [main, ...controllers.map(folderOf)] : [main]
  /** Groups of version 1 only exist for a sandbox with limits. */
  const used = (resources: Resources) => (Object.keys(resources).length > 0 ? all : [main])
  const write = (file: string, text: string) => {
    if (existsSync(main)) writeFileSync(join(main, file), text)
  }
  return {
    prepare: (resources) => {
      for (const folder of used(resources)) mkdirSync(folder, { recursive: true })
      for (const [controller, file, value] of limitFiles(limits?.version ?? 2, resources)) {
        const path = join(folderOf(controller), file)
        // Kernels without swap accounting have no such file.
        if (file !== "memory.swap.max" || canWrite(path)) writeFileSync(path, value)
      }
    },
    join: (resources) =>
      used(resources)
        .map((folder) => `echo $$ > '${folder}/cgroup.procs'`)
        .join(" && "),
    has: (pid) => {
      try {
        const text = readFileSync(`/proc/${pid}/cgroup`, "utf8")
        return ownPaths(text).get("")?.split("/").includes(`sandpiper-${name}`) === true
      } catch {
        // It has ended.
        return false
      }
    },
    members: () =>
      existsSync(main)
        ? readFileSync(join(main, "cgroup.procs"), "utf8").split("\n").filter(Boolean).map(Number)
        : [],
    freeze: () => write("cgroup.freeze", "1"),
    isFrozen: () =>
      !existsSync(main) || /^frozen 1$/m.test(readFileSync(join(main, "cgroup.events"), "utf8")),
    thaw: () => write("cgroup.freeze", "0"),
    kill: () => {
      // In this order: frozen processes end without running once more.
      write("cgroup.kill", "1")
      write("cgroup.freeze", "0")
    },
    remove: () => {
      for (const folder of all) if (existsSync(folder)) rmdirSync(folder)
    },
  }
}
