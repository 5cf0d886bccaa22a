/**
 * Unix sockets of the services without a password. A page in the sandbox's browser can reach a port of this machine under any
 * name, but no Unix socket.
 */
import { chmod, lstat, mkdir } from "node:fs/promises"
import { join } from "node:path"
import { sessionFolder } from "../../lib/state-folders.ts"
import { giveTo, type User } from "./users.ts"

export interface ServiceSockets {
  readonly vscode: string
  readonly ttyd: string
}

/** The longest path that a Unix socket may have is 107 bytes. */
const MAX_SOCKET_PATH = 100

/** Undefined if the state directory has too long a path: the services then listen on their ports. */
export const serviceSockets = (stateDir: string): ServiceSockets | undefined => {
  const folder = folderOf(stateDir)
  // ttyd takes a name that ends in .sock as a Unix socket.
  const sockets = { vscode: join(folder, "code-server.sock"), ttyd: join(folder, "ttyd.sock") }
  const isTooLong = Object.values(sockets).some((path) => Buffer.byteLength(path) > MAX_SOCKET_PATH)
  return isTooLong ? undefined : sockets
}

const folderOf = (stateDir: string): string => join(sessionFolder(stateDir), "services")

/** Creates the directory of the sockets, for the services' user only. */
export const prepareSockets = async (stateDir: string, user: User | undefined): Promise<void> => {
  const folder = folderOf(stateDir)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (!(await lstat(folder)).isDirectory()) throw new Error(`${folder} must be a directory`)
  await chmod(folder, 0o700)
  if (user) await giveTo(folder, user)
}
