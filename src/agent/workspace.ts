/**
 * OpenCode's directories, all below the state directory: configuration is wiped and written anew at each start,
 * sessions stay. The user's repository gets no file of ours.
 */
import { mkdir, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Settings } from "./settings.ts"

export interface AgentDirectories {
  readonly config: string
  readonly data: string
  readonly environment: Readonly<Record<string, string>>
  readonly logFile: string
}

export const agentDirectories = (stateDir: string): AgentDirectories => {
  const root = join(stateDir, "opencode")
  const xdg = (name: string) => join(root, "xdg", name)
  return {
    config: join(root, "config"),
    data: join(xdg("data"), "opencode"),
    logFile: join(root, "opencode.log"),
    environment: {
      OPENCODE_CONFIG_DIR: join(root, "config"),
      XDG_CONFIG_HOME: xdg("config"),
      XDG_DATA_HOME: xdg("data"),
      XDG_STATE_HOME: xdg("state"),
      XDG_CACHE_HOME: xdg("cache"),
    },
  }
}

export const writeWorkspace = async (
  directories: AgentDirectories,
  settings: Settings,
  opencodeVersion: string,
): Promise<void> => {
  const globalConfig = join(directories.environment["XDG_CONFIG_HOME"] ?? "", "opencode")
  for (const directory of [directories.config, globalConfig]) {
    await rm(directory, { recursive: true, force: true })
    await mkdir(join(directory, "node_modules"), { recursive: true, mode: 0o700 })
    await writePluginStub(directory, opencodeVersion)
  }
  await mkdir(directories.data, { recursive: true, mode: 0o700 })
  await writeAtomically(join(directories.config, "opencode.json"), settings.config)
  await writeAtomically(join(directories.data, "auth.json"), settings.auth)
}

/**
 * OpenCode installs its plugin package into every configuration directory and lets the first prompt wait for it:
 * for minutes, where there is no network. It takes these two files for an install that is done.
 */
const writePluginStub = async (directory: string, opencodeVersion: string): Promise<void> => {
  const dependencies = { "@opencode-ai/plugin": opencodeVersion }
  await writeAtomically(join(directory, "package.json"), { dependencies })
  await writeAtomically(join(directory, "package-lock.json"), {
    lockfileVersion: 3,
    packages: { "": { dependencies } },
  })
}

/** Readers see the old file or the new one, never half of it; the contents may be keys. */
const writeAtomically = async (path: string, value: unknown): Promise<void> => {
  const draft = `${path}.new`
  await writeFile(draft, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 })
  await rename(draft, path)
}
