/**
 * Where the broker's control socket is: in the state directory, or in a folder of the temporary directory if that path is
 * too long for a socket. Such a folder is used and removed only while it belongs to this user alone: anyone may put another
 * one in the place of a removed one, and the runner sends keys to the socket.
 */
import { lstatSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { sessionFolder } from "../../lib/state-folders.ts"

/** The longest path that a Unix socket may have is 107 bytes. */
const MAX_SOCKET_PATH = 100

const FOLDER = join(tmpdir(), "sandpiper-broker-")

const besideOf = (stateDir: string): string => join(sessionFolder(stateDir), "broker.sock")

export const chooseSocket = (stateDir: string): string => {
  const beside = besideOf(stateDir)
  return Buffer.byteLength(beside) <= MAX_SOCKET_PATH
    ? beside
    : join(mkdtempSync(FOLDER), "broker.sock")
}

/** Whether a stored path can still be used. */
export const isUsableSocket = (socket: string, stateDir: string): boolean =>
  socket === besideOf(stateDir) || isOwnFolder(dirname(socket))

/**
 * Removes a folder that `chooseSocket` has made. A copy of a state directory names the folder of the original, whose broker
 * may still listen there: then it stays.
 */
export const removeSocketFolder = (socket: string): void => {
  const folder = dirname(socket)
  if (!folder.startsWith(FOLDER) || !isOwnFolder(folder) || isBound(socket)) return
  try {
    rmSync(socket, { force: true })
    rmdirSync(folder)
  } catch {
    // It has other files, or is gone: an empty folder more does no harm.
  }
}

const isBound = (socket: string): boolean => {
  try {
    return readFileSync("/proc/net/unix", "utf8").includes(` ${socket}\n`)
  } catch {
    return false
  }
}

const isOwnFolder = (folder: string): boolean => {
  const found = lstatSync(folder, { throwIfNoEntry: false })
  if (!found?.isDirectory()) return false
  return found.uid === process.getuid?.() && (found.mode & 0o077) === 0
}
