/** The mark of a part of the state directory: the digest of the id of its session. */
import { mkdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { digestOf } from "../../lib/digest.ts"
import { replaceFile } from "../../lib/replace-file.ts"

const fileOf = (folder: string): string => join(folder, "owner")

/** Undefined without a mark: such a session part is one whose removal has begun, or an empty one. */
export const readOwner = (folder: string): string | undefined => {
  try {
    return readFileSync(fileOf(folder), "utf8").trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw error
  }
}

export const writeOwner = (folder: string, sessionId: string): void => {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  replaceFile(fileOf(folder), `${digestOf(sessionId)}\n`)
}

export const removeOwner = (folder: string): void => rmSync(fileOf(folder), { force: true })
