/** Secrets that no environment ever showed: handed over by a descriptor at the start, or kept in a file of the platform's. */
import { closeSync, readFileSync, statSync } from "node:fs"
import { SettingsError } from "./settings.ts"
import { type Environment, settingsTable } from "./table.ts"

/**
 * The environment with the secrets that the starter handed over by a file descriptor, `NAME=value` each, ended by
 * a zero byte. It is read once and closed: no child inherits it, and `/proc/<pid>/environ` never showed them.
 */
export const withSecrets = (env: Environment): Environment => {
  const { SANDPIPER_SECRETS_FD: named, ...rest } = env
  if (named === undefined) return env
  const fd = Number(named)
  if (!Number.isInteger(fd) || fd < 3) {
    throw new SettingsError("SANDPIPER_SECRETS_FD must be the number of an open file descriptor")
  }
  try {
    const text = readFileSync(fd, "utf8")
    closeSync(fd)
    return { ...rest, ...assignments(text.split("\0")) }
  } catch (error) {
    throw new SettingsError(`SANDPIPER_SECRETS_FD: descriptor ${fd} cannot be read`, {
      cause: error,
    })
  }
}

/**
 * The environment with what RUNNER_SECRETS_FILE says now. Unlike a descriptor it can be read again: a platform that
 * restores the sandbox with its memory puts fresh values there, and they win over those the process was born with.
 */
export const withSecretsFile = (env: Environment): Environment => {
  const path = env[settingsTable.runnerSecretsFile.env]
  if (!path) return env
  try {
    if ((statSync(path).mode & 0o077) !== 0) throw new Error("it is open to others: chmod 600 it")
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
