/**
 * The name of a session's sandbox in the browser. Each session has one of its own that nobody can guess: a page of a former
 * session or of another directory may have left a service worker at its name, which would answer for this one on the same port.
 */
import { createHmac, randomBytes } from "node:crypto"
import { mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { replaceFile } from "../../lib/replace-file.ts"

const SECRET_BYTES = 32
const LABEL_CHARACTERS = 12

/** The same again after a restart, so that an open tab of the sandbox can go on. */
export const boxNameOf = (stateDir: string, session: string): string => {
  const digest = createHmac("sha256", secretOf(stateDir)).update(session).digest("hex")
  return `box-${digest.slice(0, LABEL_CHARACTERS)}`
}

const secretOf = (stateDir: string): string => {
  const file = join(stateDir, "box-secret")
  const known = readIfThere(file)
  if (known !== undefined) return known
  const made = randomBytes(SECRET_BYTES).toString("hex")
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  replaceFile(file, made)
  return made
}

const readIfThere = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return undefined
  }
}
