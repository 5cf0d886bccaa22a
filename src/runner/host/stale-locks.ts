/** Stale lock files: removed only if the owner is dead, or if its pid now belongs to another program. */
import { readdir, readFile, readlink, rm } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"
import { readProcess } from "../../lib/process-identity.ts"
import { commandOf } from "./processes.ts"

/** The command line of a running process; undefined if it has ended or is a zombie. */
export type OwnerOf = (pid: number) => string | undefined

export const ownerOf: OwnerOf = (pid) => {
  const row = readProcess(pid)
  return row === undefined || row.isZombie ? undefined : commandOf(pid)
}

const programOf = (command: string): string => command.split(" ")[0]?.split("/").at(-1) ?? ""

/** After a restore the pid in a lock often belongs to another process, so the program must match too. */
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

/** Resolves to the removed files. */
export const clearDisplayLock = async (
  display: string,
  owner: OwnerOf = ownerOf,
  tmp = "/tmp",
): Promise<readonly string[]> => {
  const lock = join(tmp, `.X${display}-lock`)
  const socket = join(tmp, ".X11-unix", `X${display}`)
  const text = await readFile(lock, "utf8").catch(() => undefined)
  if (text !== undefined && xLockIsHeld(text, owner)) return []
  // A server without a lock file, or in another container with the same /tmp, still accepts connections.
  if (await acceptsConnections(socket)) return []
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

/** code-server uses sockets as locks: one without a listener is stale. */
export const clearCodeServerLocks = async (home: string): Promise<readonly string[]> => {
  const folder = join(home, ".local/share/code-server")
  const names = await readdir(folder).catch(() => [])
  const sockets = names.filter((name) => name.endsWith(".sock")).map((name) => join(folder, name))
  const held = await Promise.all(sockets.map(acceptsConnections))
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

/** True if a process listens on the Unix socket. */
export const acceptsConnections = async (path: string): Promise<boolean> => {
  try {
    const socket = await Bun.connect({ unix: path, socket: { data: () => {} } })
    socket.end()
    return true
  } catch {
    return false
  }
}
