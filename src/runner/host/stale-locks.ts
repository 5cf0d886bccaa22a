/** Locks that an earlier life left behind: removed only when their owner is dead or is not what the lock says. */
import { readdir, readFile, readlink, rm } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"
import { commandOf, readProcess } from "./processes.ts"

/** The command of a process that runs; nothing for one that is gone or a zombie. */
export type OwnerOf = (pid: number) => string | undefined

export const ownerOf: OwnerOf = (pid) => {
  const row = readProcess(pid)
  return row === undefined || row.isZombie ? undefined : commandOf(pid)
}

const programOf = (command: string): string => command.split(" ")[0]?.split("/").at(-1) ?? ""

/** After a restore the pid in a lock often belongs to somebody else: alive is not enough, it must be that program. */
const holds = (pid: number, program: RegExp, owner: OwnerOf): boolean => {
  const command = Number.isInteger(pid) && pid > 0 ? owner(pid) : undefined
  return command !== undefined && program.test(programOf(command))
}

const xLockIsHeld = (text: string, owner: OwnerOf): boolean =>
  holds(Number(text.trim()), /^(Xvfb|Xorg|Xvnc|Xephyr|X)$/, owner)

/** Chromium's lock is a link to `host-pid`. */
const chromiumLockIsHeld = (target: string, host: string, owner: OwnerOf): boolean => {
  const dash = target.lastIndexOf("-")
  if (target.slice(0, dash) !== host) return false
  return holds(Number(target.slice(dash + 1)), /^(chrom|google-chrome|headless_shell)/, owner)
}

/** Resolves with the files that were removed. */
export const clearDisplayLock = async (
  display: string,
  owner: OwnerOf = ownerOf,
  tmp = "/tmp",
): Promise<readonly string[]> => {
  const lock = join(tmp, `.X${display}-lock`)
  const socket = join(tmp, ".X11-unix", `X${display}`)
  const text = await readFile(lock, "utf8").catch(() => undefined)
  if (text !== undefined && xLockIsHeld(text, owner)) return []
  // A server without a lock file, or one of another container on the same /tmp, still answers on its socket.
  if (await answers(socket)) return []
  return removeAll([lock, socket])
}

const SINGLETONS = ["SingletonLock", "SingletonSocket", "SingletonCookie"]

export const clearChromiumLock = async (
  profile: string,
  owner: OwnerOf = ownerOf,
  host = hostname(),
): Promise<readonly string[]> => {
  const target = await readlink(join(profile, "SingletonLock")).catch(() => undefined)
  if (target === undefined || chromiumLockIsHeld(target, host, owner)) return []
  return removeAll(SINGLETONS.map((name) => join(profile, name)))
}

/** code-server locks by sockets: one that nobody listens on belongs to nobody. */
export const clearCodeServerLocks = async (home: string): Promise<readonly string[]> => {
  const folder = join(home, ".local/share/code-server")
  const names = await readdir(folder).catch(() => [])
  const sockets = names.filter((name) => name.endsWith(".sock")).map((name) => join(folder, name))
  const held = await Promise.all(sockets.map(answers))
  if (held.includes(true)) return []
  return removeAll([...sockets, join(folder, "heartbeat")])
}

const removeAll = async (paths: readonly string[]): Promise<readonly string[]> => {
  const removed = await Promise.all(
    paths.map(async (path) => {
      try {
        await rm(path)
        return [path]
      } catch {
        return []
      }
    }),
  )
  return removed.flat()
}

/** Somebody listens on that Unix socket. */
export const answers = async (path: string): Promise<boolean> => {
  try {
    const socket = await Bun.connect({ unix: path, socket: { data: () => {} } })
    socket.end()
    return true
  } catch {
    return false
  }
}
