/** The encryption key of `sandpiper up`: a file in the state directory that only its owner can read. */
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs"
import { dirname } from "node:path"
import { randomHex } from "./random-token.ts"
import { errorCode } from "../../lib/error-code.ts"

/** The key's text for `readKeyring`. Makes the file if there is none; two processes at once get the same key. */
export const ensureKeyFile = (path: string): string => {
  const found = read(path)
  if (found !== undefined) return found
  make(path)
  const made = read(path)
  if (made === undefined)
    throw new Error(`The key file ${path} could not be made: check the rights of its directory.`)
  return made
}

/** Replaces the key, for a rotation: the file is the old one or the new one, never half of it. */
export const replaceKeyFile = (path: string, text: string): void => {
  const draft = `${path}.${randomHex(6)}.new`
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
  const file = openSync(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  try {
    writeSync(file, `${text}\n`)
    fsyncSync(file)
    renameSync(draft, path)
  } finally {
    closeSync(file)
    rmSync(draft, { force: true })
  }
}

/** The text of a new key. */
export const newKey = (): string =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64")

/** Written under another name and then linked: the file is there whole or not at all, and never replaces one. */
const make = (path: string): void => {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const draft = `${path}.${randomHex(6)}.new`
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
  const file = openSync(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  try {
    writeSync(file, `${newKey()}\n`)
    fsyncSync(file)
    linkSync(draft, path)
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error
  } finally {
    closeSync(file)
    rmSync(draft, { force: true })
  }
}

const read = (path: string): string | undefined => {
  const file = openToRead(path)
  if (file === undefined) return undefined
  try {
    const about = fstatSync(file)
    if (!about.isFile())
      throw new Error(`The key file ${path} is not a regular file: put the file itself there.`)
    if (about.uid !== process.getuid?.()) {
      throw new Error(
        `The key file ${path} belongs to another user: run chown on it, or start as that user.`,
      )
    }
    if ((about.mode & 0o077) !== 0) {
      throw new Error(`The key file ${path} can be read by others: run chmod 600 on it.`)
    }
    const text = readFileSync(file, "utf8").trim()
    if (text === "") throw new Error(`The key file ${path} is empty: restore it from a backup.`)
    return text
  } finally {
    closeSync(file)
  }
}

/** `O_NONBLOCK`: opening a FIFO would wait for a writer. */
const openToRead = (path: string): number | undefined => {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined
    if (errorCode(error) === "ELOOP") {
      throw new Error(`The key file ${path} is a symbolic link: put the file itself there.`, {
        cause: error,
      })
    }
    throw error
  }
}
