/**
 * OpenCode's directories, all below the state directory: the cache in the machine part, all others in the session part.
 * The config directory is rewritten at each start; OpenCode's data stays. No file is written to the user's repository.
 *
 * The agent can write to these directories and the runner may be root, so symbolic links in them are never followed.
 */
import { lstat, mkdir, rename, rm, writeFile } from "node:fs/promises"
import { dirname, join, relative, sep } from "node:path"
import { type ConfigFiles, isImportedByOpenCode, isTool } from "./config-files.ts"
import type { CodeFile } from "./check-code.ts"
import type { OpenCodeConfig } from "./compose-config.ts"
import { cacheFolder, sessionFolder } from "../../../lib/state-folders.ts"

export interface AgentDirectories {
  /** The parent of all the others but the cache; only the runner creates entries in it. */
  readonly root: string
  /** Directories that the agent may write to. */
  readonly writableDirs: readonly string[]
  readonly config: string
  readonly configFile: string
  /** The session agent's instructions. */
  readonly instructionsFile: string
  readonly data: string
  /** The providers' keys. */
  readonly authFile: string
  /** The bundled model catalogue; without the file OpenCode uses its own. */
  readonly catalogueFile: string
  readonly home: string
  readonly environment: Readonly<Record<string, string>>
  /** Outside `root`: the runner opens and truncates it by name. */
  readonly logFile: string
}

export const agentDirectories = (stateDir: string): AgentDirectories => {
  const root = join(sessionFolder(stateDir), "opencode")
  const config = join(root, "config")
  const catalogueFile = join(root, "models.json")
  const xdg = (name: string) => join(root, "xdg", name)
  return {
    root,
    config,
    configFile: join(config, "opencode.json"),
    instructionsFile: join(config, "instructions", "session.md"),
    data: join(xdg("data"), "opencode"),
    authFile: join(xdg("data"), "opencode", "auth.json"),
    catalogueFile,
    home: join(root, "home"),
    writableDirs: [join(root, "home"), join(root, "xdg"), cacheFolder(stateDir)],
    logFile: join(sessionFolder(stateDir), "opencode.log"),
    environment: {
      OPENCODE_CONFIG_DIR: config,
      OPENCODE_MODELS_PATH: catalogueFile,
      XDG_CONFIG_HOME: xdg("config"),
      XDG_DATA_HOME: xdg("data"),
      XDG_STATE_HOME: xdg("state"),
      XDG_CACHE_HOME: cacheFolder(stateDir),
    },
  }
}

export interface ConfigDirectoryOptions {
  readonly directories: AgentDirectories
  readonly config: OpenCodeConfig
  readonly files: ConfigFiles
  readonly catalogue: string | undefined
  readonly opencodeVersion: string
  /** Returns path -> problem for the files that do not load. */
  readonly checkCode: (files: readonly CodeFile[]) => Promise<ReadonlyMap<string, string>>
}

export interface RejectedFile {
  readonly path: string
  readonly problem: string
}

/** Creates what must exist when OpenCode starts: its writable directories and an empty user config. */
export const prepareWritableDirs = async (
  { root, home, data, environment }: AgentDirectories,
  opencodeVersion: string,
): Promise<void> => {
  const userConfig = join(environment["XDG_CONFIG_HOME"] ?? "", "opencode")
  for (const path of [data, userConfig]) await removeNonDirectories(root, path)
  await Promise.all([
    mkdir(home, { recursive: true, mode: 0o700 }),
    mkdir(data, { recursive: true, mode: 0o700 }),
    mkdir(environment["XDG_CACHE_HOME"] ?? "", { recursive: true, mode: 0o700 }),
    writeEmptyConfig(userConfig, opencodeVersion),
  ])
}

/** Removes what is not a directory on the path below `root`: the runner would write through a symbolic link. */
const removeNonDirectories = async (root: string, directory: string): Promise<void> => {
  let at = root
  for (const name of relative(root, directory).split(sep)) {
    at = join(at, name)
    const found = await lstat(at).catch(() => undefined)
    if (found && !found.isDirectory()) await rm(at)
  }
}

/** Writes a new config directory beside the old one and swaps them. Returns the files left out because they do not load. */
export const writeConfigDirectory = async (
  options: ConfigDirectoryOptions,
): Promise<readonly RejectedFile[]> => {
  const { directories, files, opencodeVersion } = options
  const draft = `${directories.config}.new`
  await writeEmptyConfig(draft, opencodeVersion)
  const written = Object.entries(files).filter(([path]) => path !== "opencode.json")
  const folders = new Set(written.map(([path]) => dirname(join(draft, path))))
  await Promise.all([...folders].map((folder) => mkdir(folder, { recursive: true, mode: 0o700 })))
  await Promise.all(
    written.map(([path, text]) => writeFile(join(draft, path), text, { mode: 0o600 })),
  )
  const rejected = await removeBrokenCode(options, draft)
  await rm(directories.config, { recursive: true, force: true })
  await rename(draft, directories.config)
  await writeConfig(directories, options.config)
  await removeNonDirectories(directories.root, dirname(directories.authFile))
  await writeAtomically(directories.authFile, json(options.config.auth))
  if (options.catalogue === undefined) await rm(directories.catalogueFile, { force: true })
  else await writeAtomically(directories.catalogueFile, options.catalogue)
  return rejected
}

/** Writes the files that OpenCode reads again at a reload. */
export const writeConfig = async (
  { root, configFile, instructionsFile }: AgentDirectories,
  config: OpenCodeConfig,
): Promise<void> => {
  await removeNonDirectories(root, dirname(instructionsFile))
  await mkdir(dirname(instructionsFile), { recursive: true, mode: 0o700 })
  await writeAtomically(instructionsFile, config.instructions)
  await writeAtomically(configFile, json(config.opencodeJson))
}

const removeBrokenCode = async (
  { files, checkCode }: ConfigDirectoryOptions,
  draft: string,
): Promise<readonly RejectedFile[]> => {
  const code = Object.keys(files)
    .filter(isImportedByOpenCode)
    .map((path) => ({ path: join(draft, path), isTool: isTool(path) }))
  const problems = await checkCode(code)
  const rejected: RejectedFile[] = []
  for (const [path, problem] of problems) {
    await rm(path)
    rejected.push({ path: path.slice(draft.length + 1), problem })
  }
  return rejected
}

const writeEmptyConfig = async (directory: string, opencodeVersion: string): Promise<void> => {
  await rm(directory, { recursive: true, force: true })
  await mkdir(join(directory, "node_modules"), { recursive: true, mode: 0o700 })
  await writePluginStub(directory, opencodeVersion)
}

/**
 * OpenCode installs its plugin package into every config directory, and the first prompt waits for that: for minutes
 * without a network. With these two files it assumes that the package is installed.
 */
const writePluginStub = async (directory: string, opencodeVersion: string): Promise<void> => {
  const dependencies = { "@opencode-ai/plugin": opencodeVersion }
  const lock = { lockfileVersion: 3, packages: { "": { dependencies } } }
  await Promise.all([
    writeAtomically(join(directory, "package.json"), json({ dependencies })),
    writeAtomically(join(directory, "package-lock.json"), json(lock)),
  ])
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Readers see the old or the new content, never a part. Mode 0600, because the content may be keys. */
export const writeAtomically = async (path: string, text: string): Promise<void> => {
  const draft = `${path}.new`
  // A leftover of a crash may have another mode, and the agent may have put a symbolic link there.
  await rm(draft, { recursive: true, force: true })
  await writeFile(draft, text, { mode: 0o600, flag: "wx" })
  await rename(draft, path)
}
