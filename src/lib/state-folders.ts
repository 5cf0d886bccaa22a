/**
 * The two parts of the runner's state directory. The machine part stays when another session gets the disk; the session part
 * is removed as a whole.
 */
import { join } from "node:path"

/** Definitions of services and env files, the age of the clones, and caches without a word of a conversation. */
export const machineFolder = (stateDir: string): string => join(stateDir, "machine")

/** Everything else, also what is secret or was said. */
export const sessionFolder = (stateDir: string): string => join(stateDir, "session")

/** The records of the runner's watchdogs. */
export const watchdogFolder = (stateDir: string): string =>
  join(machineFolder(stateDir), "watchdogs")

/** The shell that OpenCode starts for each command of the agent. Its name tells OpenCode which language it has. */
export const agentShellFile = (stateDir: string): string =>
  join(sessionFolder(stateDir), "shell", "bash")

/** The cache of OpenCode, which it fills again if it is empty. The agent can write to it. */
export const cacheFolder = (stateDir: string): string => join(machineFolder(stateDir), "cache")
