/** Secrets that are not in the process environment: passed in a file descriptor at the start, or kept in a file. */
import { closeSync, readFileSync, statSync } from "node:fs"
import type { Environment } from "./setting.ts"
import { SettingsError } from "./settings-error.ts"
import { settingsTable } from "./table.ts"

/**
 * Adds the secrets from the descriptor SANDPIPER_SECRETS_FD: `NAME=value` entries, each ended by a zero byte. The
 * descriptor is read once and closed, so that no child inherits it; `/proc/<pid>/environ` does not show these values.
 */
export const withSecrets = (env: Environment): Environment => {
  const { SANDPIPER_SECRETS_FD: text, ...rest } = env
  if (text === undefined) return env
  const fd = Number(text)
  if (!Number.isInteger(fd) || fd < 3) {
    throw new SettingsError("SANDPIPER_SECRETS_FD must be the number of an open file descriptor")
  }
  try {
    const content = readFileSync(fd, "utf8")
    closeSync(fd)
    return { ...rest, ...assignments(content.split("\0")) }
  } catch (error) {
    throw new SettingsError(`SANDPIPER_SECRETS_FD: descriptor ${fd} cannot be read`, {
      cause: error,
    })
  }
}

/**
 * Adds the secrets from RUNNER_SECRETS_FILE. Unlike a descriptor the file can be reread: after a restore with memory the
 * platform writes fresh values there, which take precedence over those of the environment.
 */
export const withSecretsFile = (env: Environment): Environment => {
  const path = env[settingsTable.runnerSecretsFile.env]
  if (!path) return env
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      throw new Error("other users may read it: chmod 600 it")
    return { ...env, ...assignments(readFileSync(path, "utf8").split("\n")) }
  } catch (error) {
    throw new SettingsError(`RUNNER_SECRETS_FILE: ${path} cannot be used`, { cause: error })
  }
}

const assignments = (entries: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    entries.flatMap((entry): [string, string][] => {
      const at = entry.indexOf("=")
      return at > 0 ? [[entry.slice(0, at), entry.slice(at + 1)]] : []
    }),
  )
