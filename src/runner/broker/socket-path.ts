/**
 * Where the broker's control socket is: in the state directory, or in a folder of the temporary directory if that path is
 * too long for a socket. Such a folder is used and removed only while it belongs to this user alone: anyone may put another
 * one in the place of a removed one, and the runner sends keys to the socket.
 */
import { lstatSync, mkdtempSync, rmdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

/** The longest path that a Unix socket may have is 107 bytes. */
const MAX_SOCKET_PATH = 100

const besideOf = (stateDir: string): string => join(stateDir, "broker.sock")

export const chooseSocket = (stateDir: string): string => {
  const beside = besideOf(stateDir)
  return Buffer.byteLength(beside) <= MAX_SOCKET_PATH
    ? beside
    : join(mkdtempSync(join(tmpdir(), "sandpiper-broker-")), "broker.sock")
}

/** Whether a stored path can still be used. */
export const isUsableSocket = (socket: string, stateDir: string): boolean =>
  socket === besideOf(stateDir) || isOwnFolder(dirname(socket))

/** The state directory stays. */
export const removeSocketFolder = (socket: string, stateDir: string): void => {
  const folder = dirname(socket)
  if (socket === besideOf(stateDir) || !isOwnFolder(folder)) return
  try {
    rmSync(socket, { force: true })
    rmdirSync(folder)
  } catch {
    // It has other files, or is gone: an empty folder more does no harm.
  }
}

const isOwnFolder = (folder: string): boolean => {
  const found = lstatSync(folder, { throwIfNoEntry: false })
  if (!found?.isDirectory()) return false
  return found.uid === process.getuid?.() && (found.mode & 0o077) === 0
}
