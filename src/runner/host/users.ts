/** Users of this machine: the one the agent runs as, and giving files to that user. */
import { readFileSync, statSync } from "node:fs"
import { dirname } from "node:path"
import { runCommand } from "../../lib/run-command.ts"

export interface User {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
}

export const parsePasswd = (text: string, name: string): User | undefined => {
  const line = text.split("\n").find((entry) => entry.startsWith(`${name}:`))
  const [, , uid, gid, , home] = line?.split(":") ?? []
  if (uid === undefined || gid === undefined || home === undefined) return undefined
  return { name, uid: Number(uid), gid: Number(gid), home }
}

const findUser = (name: string): User | undefined =>
  parsePasswd(readFileSync("/etc/passwd", "utf8"), name)

/** The first parent directory of the path that the user may not enter. */
export const firstClosed = (path: string, user: User): string | undefined => {
  const ways: string[] = []
  for (let at = path; at !== dirname(at); at = dirname(at)) ways.unshift(dirname(at))
  return ways.find((directory) => {
    const { uid, gid, mode } = statSync(directory)
    const bit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001
    return (mode & bit) === 0
  })
}

const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
const CHOWN_LIMIT_MS = 15 * 60_000

/** Changes the owner of everything below the path; symbolic links themselves, not their targets. */
export const giveTo = async (path: string, { uid, gid }: User): Promise<void> => {
  const owner = `${uid}:${gid}`
  const { exitCode, stderr } = await runCommand("chown", ["-R", "-h", owner, "--", path], {
    env: { PATH: SYSTEM_PATH },
    timeoutMs: CHOWN_LIMIT_MS,
  })
  if (exitCode !== 0) throw new Error(`${path} cannot be given to ${owner}: ${stderr.trim()}`)
}

const isOwnedBy = (path: string, user: User): boolean => statSync(path).uid === user.uid

/**
 * Undefined if the agent runs as the runner's own user: the runner is not root and cannot change users, or AGENT_USER=root
 * asks for it. Without a name, `agent` if that user exists.
 */
export const chooseAgentUser = (name: string | undefined, isRoot: boolean): User | undefined => {
  if (!isRoot || name === "root") return undefined
  const user = findUser(name ?? "agent")
  if (!user && name !== undefined) {
    throw new Error(
      `AGENT_USER: there is no user ${name}: create it (useradd --create-home ${name}), or set AGENT_USER=root to run the agent as root`,
    )
  }
  return user
}

/** Gives a directory to the user. Skips one that the user already owns, which may be a large checkout. */
export const handOver = async (path: string, user: User): Promise<void> => {
  const closed = firstClosed(path, user)
  if (closed !== undefined) {
    throw new Error(
      `the agent's user ${user.name} cannot reach ${path}: it may not enter ${closed} (chmod o+x it, or use another directory)`,
    )
  }
  if (!isOwnedBy(path, user)) await giveTo(path, user)
}
