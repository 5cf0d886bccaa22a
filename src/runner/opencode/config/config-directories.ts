/**
 * OpenCode's directories, all below the state directory: configuration is wiped and written anew at each start,
 * sessions stay. The user's repository gets no file of ours.
 *
 * What is in them is the agent's, and the runner may be root: a link that lies there is never followed.
 */
import { lstat, mkdir, rename, rm, writeFile } from "node:fs/promises"
import { dirname, join, relative, sep } from "node:path"
import { type ConfigFiles, isLoaded, isTool } from "./config-files.ts"
import type { CodeFile } from "./check-code.ts"
import type { OpenCodeConfig } from "./compose-config.ts"

export interface AgentDirectories {
  /** Everything that is OpenCode's is below it; the names in it are the runner's to give. */
  readonly root: string
  /** What in it is the agent's to write to from the start. */
  readonly rooms: readonly string[]
  readonly config: string
  readonly configFile: string
  readonly sentencesFile: string
  readonly data: string
  /** The providers' keys. */
  readonly authFile: string
  /** The models that there are; without it OpenCode takes its own list. */
  readonly catalogueFile: string
  readonly home: string
  readonly environment: Readonly<Record<string, string>>
  /** Among the runner's own files: it is read and cut by its name. */
  readonly logFile: string
}

export const agentDirectories = (stateDir: string): AgentDirectories => {
  const root = join(stateDir, "opencode")
  const config = join(root, "config")
  const catalogueFile = join(root, "models.json")
  const xdg = (name: string) => join(root, "xdg", name)
  return {
    root,
    config,
    configFile: join(config, "opencode.json"),
    sentencesFile: join(config, "instructions", "session.md"),
    data: join(xdg("data"), "opencode"),
    authFile: join(xdg("data"), "opencode", "auth.json"),
    catalogueFile,
    home: join(root, "home"),
    rooms: [join(root, "home"), join(root, "xdg")],
    logFile: join(stateDir, "opencode.log"),
    environment: {
      OPENCODE_CONFIG_DIR: config,
      OPENCODE_MODELS_PATH: catalogueFile,
      XDG_CONFIG_HOME: xdg("config"),
      XDG_DATA_HOME: xdg("data"),
      XDG_STATE_HOME: xdg("state"),
      XDG_CACHE_HOME: xdg("cache"),
    },
  }
}

export interface WorkspaceOptions {
  readonly directories: AgentDirectories
  readonly settings: OpenCodeConfig
  readonly files: ConfigFiles
  readonly catalogue: string | undefined
  readonly opencodeVersion: string
  /** Path -> problem, of the files that do not load. */
  readonly checkCode: (files: readonly CodeFile[]) => Promise<ReadonlyMap<string, string>>
}

export interface LeftOut {
  readonly path: string
  readonly problem: string
}

/** What OpenCode finds at its start: places to write to, and a configuration of the user's that says nothing. */
export const writeRooms = async (
  { root, home, data, environment }: AgentDirectories,
  opencodeVersion: string,
): Promise<void> => {
  const userConfig = join(environment["XDG_CONFIG_HOME"] ?? "", "opencode")
  for (const way of [data, userConfig]) await clearWay(root, way)
  await Promise.all([
    mkdir(home, { recursive: true, mode: 0o700 }),
    mkdir(data, { recursive: true, mode: 0o700 }),
    writeEmptyConfig(userConfig, opencodeVersion),
  ])
}

/** Takes away what lies on the way to a directory and is none: a link there would lead the runner's hand elsewhere. */
const clearWay = async (root: string, directory: string): Promise<void> => {
  let at = root
  for (const name of relative(root, directory).split(sep)) {
    at = join(at, name)
    const found = await lstat(at).catch(() => undefined)
    if (found && !found.isDirectory()) await rm(at)
  }
}

/** Written beside the old one and put in its place whole; tells which files were left out because they do not load. */
export const writeWorkspace = async (options: WorkspaceOptions): Promise<readonly LeftOut[]> => {
  const { directories, files, opencodeVersion } = options
  const draft = `${directories.config}.new`
  await writeEmptyConfig(draft, opencodeVersion)
  const written = Object.entries(files).filter(([path]) => path !== "opencode.json")
  const folders = new Set(written.map(([path]) => dirname(join(draft, path))))
  await Promise.all([...folders].map((folder) => mkdir(folder, { recursive: true, mode: 0o700 })))
  await Promise.all(
    written.map(([path, text]) => writeFile(join(draft, path), text, { mode: 0o600 })),
  )
  const leftOut = await leaveOutBroken(options, draft)
  await rm(directories.config, { recursive: true, force: true })
  await rename(draft, directories.config)
  await writeSettings(directories, options.settings)
  await clearWay(directories.root, dirname(directories.authFile))
  await writeAtomically(directories.authFile, json(options.settings.auth))
  if (options.catalogue === undefined) await rm(directories.catalogueFile, { force: true })
  else await writeAtomically(directories.catalogueFile, options.catalogue)
  return leftOut
}

/** What a reload changes: OpenCode reads these again without a new process. */
export const writeSettings = async (
  { root, configFile, sentencesFile }: AgentDirectories,
  settings: OpenCodeConfig,
): Promise<void> => {
  await clearWay(root, dirname(sentencesFile))
  await mkdir(dirname(sentencesFile), { recursive: true, mode: 0o700 })
  await writeAtomically(sentencesFile, settings.instructions)
  await writeAtomically(configFile, json(settings.config))
}

const leaveOutBroken = async (
  { files, checkCode }: WorkspaceOptions,
  draft: string,
): Promise<readonly LeftOut[]> => {
  const code = Object.keys(files)
    .filter(isLoaded)
    .map((path) => ({ path: join(draft, path), isTool: isTool(path) }))
  const problems = await checkCode(code)
  const leftOut: LeftOut[] = []
  for (const [path, problem] of problems) {
    await rm(path)
    leftOut.push({ path: path.slice(draft.length + 1), problem })
  }
  return leftOut
}

const writeEmptyConfig = async (directory: string, opencodeVersion: string): Promise<void> => {
  await rm(directory, { recursive: true, force: true })
  await mkdir(join(directory, "node_modules"), { recursive: true, mode: 0o700 })
  await writePluginStub(directory, opencodeVersion)
}

/**
 * OpenCode installs its plugin package into every configuration directory and lets the first prompt wait for it:
 * for minutes, where there is no network. It takes these two files for an install that is done.
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

/** Readers see the old file or the new one, never half of it; the contents may be keys. */
export const writeAtomically = async (path: string, text: string): Promise<void> => {
  const draft = `${path}.new`
  // What a crash left behind has a mode of its own, and what the agent laid there may lead elsewhere.
  await rm(draft, { recursive: true, force: true })
  await writeFile(draft, text, { mode: 0o600, flag: "wx" })
  await rename(draft, path)
}
