/** The token of the operator: the one of a file that the operator names, or a random one for each state directory. */
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { SettingsError } from "../settings/settings-error.ts"

/** Where the token is. `given`: OPERATOR_TOKEN_FILE. */
export const operatorTokenFile = (stateDir: string, given: string | undefined): string =>
  given ?? join(stateDir, "fleet", "operator-token")

export const readOperatorToken = (stateDir: string, given: string | undefined): string =>
  given === undefined ? readOwn(operatorTokenFile(stateDir, given)) : readGiven(given)

/** The same token after a restart, so that clients need not learn a new one. */
const readOwn = (file: string): string => {
  if (!existsSync(file)) {
    const draft = `${file}.${crypto.randomUUID()}`
    writeFileSync(draft, crypto.randomUUID(), { mode: 0o600 })
    try {
      linkSync(draft, file)
    } catch (error) {
      // Another replica on this directory was faster: all have its token.
      if (!existsSync(file)) throw error
    } finally {
      rmSync(draft)
    }
  }
  return readFileSync(file, "utf8").trim()
}

const readGiven = (file: string): string => {
  const token = readText(file).trim()
  // It is sent in a header.
  if (!/^[\x21-\x7e]{32,}$/.test(token))
    throw new SettingsError(
      `OPERATOR_TOKEN_FILE: ${file} must hold a token of at least 32 letters, digits or signs, without spaces`,
    )
  return token
}

const readText = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch (error) {
    throw new SettingsError(`OPERATOR_TOKEN_FILE: ${file} cannot be read`, { cause: error })
  }
}
