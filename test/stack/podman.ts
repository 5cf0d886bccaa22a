/** Podman's Engine API on a socket of its own, with its own storage, and a small image made of this machine's programs. */
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { cp } from "node:fs/promises"
import { dirname, join } from "node:path"
import { failureOf } from "../kit/failure-of.ts"
import { untilEqual } from "../kit/until-true.ts"
import { start, temporaryDirectory, until } from "./kit.ts"

export interface Podman {
  readonly socket: string
  /** Runs podman itself and returns what it prints. */
  readonly run: (...args: readonly string[]) => string
  /** Makes an image of these programs and files, with the text as its /start.sh. */
  readonly image: (options: {
    readonly name: string
    readonly programs: readonly string[]
    readonly files?: Readonly<Record<string, string>>
    readonly startScript: string
  }) => Promise<void>
  readonly stop: () => Promise<void>
}

/** The libraries of a program, as the dynamic linker finds them. */
const librariesOf = (program: string): readonly string[] =>
  Bun.spawnSync(["ldd", program])
    .stdout.toString()
    .split("\n")
    .flatMap((line) => /(\/\S+)/.exec(line)?.[1] ?? [])

/** The storage of containers stays mounted after its service has ended. */
const unmountBelow = (folder: string): void => {
  const mounted = readFileSync("/proc/mounts", "utf8")
    .split("\n")
    .flatMap((line) => line.split(" ")[1] ?? [])
    .filter((path) => path.startsWith(`${folder}/`))
  for (const path of mounted.toReversed()) Bun.spawnSync(["umount", "--lazy", path])
}

/** Podman's monitors of exec sessions stay for five minutes and would make the folder again when they end. */
const endMonitors = (folder: string): void => {
  for (const entry of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const words = readFileSync(`/proc/${entry}/cmdline`, "utf8").split("\0")
      const isOurs = words.some((word) => word.startsWith(`${folder}/`))
      if (words[0]?.endsWith("conmon") && isOurs) process.kill(Number(entry), "SIGKILL")
    } catch {
      // The process has ended meanwhile.
    }
  }
}

/** A process of Podman that cleans up after a container may mount the storage once more. */
const removeMounted = async (folder: {
  readonly path: string
  readonly remove: () => Promise<void>
}): Promise<void> => {
  const attempt = async (): Promise<string> => {
    unmountBelow(folder.path)
    return failureOf(folder.remove())
  }
  await untilEqual(attempt, "no failure", "removal of the storage of Podman", 20_000)
}

export const startPodman = async (): Promise<Podman> => {
  const folder = await temporaryDirectory()
  const socket = join(folder.path, "podman.sock")
  const options = [
    ["--root", join(folder.path, "storage")],
    ["--runroot", join(folder.path, "run")],
    ["--storage-driver", "overlay"],
    ["--cgroup-manager", "cgroupfs"],
    ["--events-backend", "file"],
    ["--runtime", "runc"],
  ].flat()
  const run = (...args: readonly string[]): string => {
    const { exitCode, stdout, stderr } = Bun.spawnSync(["podman", ...options, ...args])
    if (exitCode !== 0) throw new Error(`podman ${args[0]}: ${stderr.toString().slice(-2000)}`)
    return stdout.toString()
  }
  const service = start([
    "podman",
    ...options,
    "system",
    "service",
    "--time",
    "0",
    `unix://${socket}`,
  ])
  await until(async () => {
    try {
      return (await fetch("http://d/_ping", { unix: socket })).ok
    } catch {
      return false
    }
  }, "podman's service answers")
  return {
    socket,
    run,
    image: async ({ name, programs, files = {}, startScript }) => {
      const root = join(folder.path, `image-${name.replaceAll(/\W/g, "-")}`)
      const copy = async (from: string, to: string) => {
        mkdirSync(dirname(join(root, to)), { recursive: true })
        await cp(from, join(root, to), { dereference: true, recursive: true })
      }
      for (const directory of ["bin", "etc", "root", "run", "tmp", "workspace"])
        mkdirSync(join(root, directory), { recursive: true })
      // The agent's own user writes there: OpenCode does not start without it.
      chmodSync(join(root, "tmp"), 0o1777)
      for (const program of programs) {
        const path = Bun.which(program)
        if (path === null) throw new Error(`${program} is not installed`)
        await copy(path, `/usr/bin/${program}`)
        for (const library of librariesOf(path)) await copy(library, library)
      }
      for (const [to, from] of Object.entries(files)) {
        await copy(from, to)
        for (const library of librariesOf(from)) await copy(library, library)
      }
      await copy("/bin/sh", "/bin/sh")
      writeFileSync(
        join(root, "etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n",
      )
      writeFileSync(join(root, "etc/group"), "root:x:0:\nagent:x:1000:\n")
      mkdirSync(join(root, "home/agent"), { recursive: true })
      chownSync(join(root, "home/agent"), 1000, 1000)
      writeFileSync(join(root, "start.sh"), startScript, { mode: 0o755 })
      const archive = join(folder.path, "image.tar")
      Bun.spawnSync(["tar", "-C", root, "-cf", archive, "."])
      const settings = ["WORKDIR /workspace", "ENV SANDPIPER_STATE_DIR=/var/lib/sandpiper"]
      run("import", ...settings.flatMap((line) => ["--change", line]), archive, name)
    },
    stop: async () => {
      run("rm", "--all", "--force", "--volumes", "--time", "0")
      await service.stop()
      endMonitors(folder.path)
      await removeMounted(folder)
    },
  }
}
