/** Everything that one configuration means for OpenCode: files, settings, environment, and what tells it from others. */
import { join } from "node:path"
import type { Catalogue } from "./catalogue.ts"
import { type ConfigFiles, baseSettings, filesFor, isCode } from "./config-files.ts"
import { agentEnvironment, offline } from "../launch/environment.ts"
import { composeConfig, type RuntimeConfig, type OpenCodeConfig } from "./compose-config.ts"
import type { AgentDirectories } from "./config-directories.ts"
import type { AgentUser } from "../launch/interfaces.ts"

export interface LaunchPlan {
  readonly runtime: RuntimeConfig
  readonly settings: OpenCodeConfig
  readonly files: ConfigFiles
  readonly environment: Readonly<Record<string, string>>
  /** The models that OpenCode is told of; else it lays out all that it knows. */
  readonly catalogue: string | undefined
  readonly hash: string
  /** Of what a running process cannot take: what it was started with, and what it reads once. */
  readonly processHash: string
  /** Of what it must be started with: the code that it imports, its environment, who it runs as. */
  readonly startHash: string
}

export interface LaunchPlanOptions {
  readonly directories: AgentDirectories
  readonly files: ConfigFiles
  /** Those that the program carries. */
  readonly ownFiles: ConfigFiles
  readonly catalogue: Catalogue
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly environmentAllow: readonly string[]
  readonly ownVariables: ReadonlySet<string>
  readonly extraEnvironment: Readonly<Record<string, string>>
  readonly permissions: "allow" | "relay"
  readonly allowedModels: readonly string[] | undefined
  readonly bashTimeoutMs: number
  readonly hiddenTools?: readonly string[]
  readonly user: AgentUser | undefined
  readonly opencodeVersion: string
  readonly workDir: string
  /** Beside those of the configuration's own. */
  readonly instructionFiles?: readonly string[]
}

/** Throws a SettingsError that says all that is wrong; nothing is touched. */
export const createLaunchPlans =
  (options: LaunchPlanOptions) =>
  (runtime: RuntimeConfig): LaunchPlan => {
    const { directories, user } = options
    const files = filesFor(options.files, runtime.isOrchestrator === true)
    const settings = composeConfig({
      base: baseSettings(options.files),
      runtime,
      environment: options.environment,
      permissions: options.permissions,
      allowedModels: options.allowedModels,
      hiddenTools: options.hiddenTools ?? [],
      instructionFiles: [
        ...Object.keys(files)
          .filter((path) => path.startsWith("instructions/"))
          .map((path) => join(directories.config, path)),
        ...(options.instructionFiles ?? []),
      ],
      sentencesFile: directories.sentencesFile,
    })
    const passed = agentEnvironment({
      environment: options.environment,
      allow: options.environmentAllow,
      own: options.ownVariables,
    })
    const environment = {
      ...passed,
      ...(user && { USER: user.name, LOGNAME: user.name, HOME: user.home }),
      ...directories.environment,
      ...offline,
      OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS: String(options.bashTimeoutMs),
      ...options.extraEnvironment,
    }
    const code = Object.entries(files).filter(([path]) => isCode(path))
    const beside = {
      allowedVariables: options.environmentAllow.filter((name) => name in passed),
      plugins: Object.keys(files).filter(
        (path) => path.startsWith("plugins/") && files[path] !== options.ownFiles[path],
      ),
    }
    const catalogue = options.catalogue.suffices(settings, beside)
      ? options.catalogue.text
      : undefined
    const startHash = hashOf([
      code,
      environment,
      options.opencodeVersion,
      options.workDir,
      user?.uid,
      runtime.isOrchestrator === true,
    ])
    const processHash = hashOf([startHash, catalogue !== undefined])
    const hash = hashOf([processHash, settings, files])
    return { runtime, settings, files, environment, catalogue, hash, processHash, startHash }
  }

const hashOf = (value: unknown): string =>
  new Bun.CryptoHasher("sha256").update(JSON.stringify(value)).digest("hex")
