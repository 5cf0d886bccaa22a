/** Everything that OpenCode needs for one configuration: files, config, environment, and hashes to compare plans. */
import { join } from "node:path"
import type { Catalogue } from "./catalogue.ts"
import { type ConfigFiles, baseConfig, filesFor, isCode } from "./config-files.ts"
import { agentEnvironment } from "../../../settings/reaches.ts"
import { offline, withLoopbackDirect } from "../launch/environment.ts"
import {
  type BrokerAddress,
  composeConfig,
  type RuntimeConfig,
  type OpenCodeConfig,
} from "./compose-config.ts"
import { knownProviders } from "../../broker/upstreams.ts"
import type { AgentDirectories } from "./config-directories.ts"
import type { Endpoint } from "./endpoints.ts"
import type { AgentUser } from "../launch/interfaces.ts"
import { type ToolSet, toolSets } from "../../../wire/operations/tool-sets.ts"

export interface LaunchPlan {
  readonly runtime: RuntimeConfig
  readonly config: OpenCodeConfig
  readonly files: ConfigFiles
  readonly environment: Readonly<Record<string, string>>
  /** The bundled model catalogue; undefined when OpenCode must load its own. */
  readonly catalogue: string | undefined
  /** Of the whole plan. */
  readonly hash: string
  /** Of what needs a new process when it changes: `startHash` and what a process reads only once. */
  readonly processHash: string
  /** Of what is fixed when the process starts: imported code, environment, user. */
  readonly startHash: string
}

export interface LaunchPlanOptions {
  readonly directories: AgentDirectories
  readonly files: ConfigFiles
  /** The files that this program bundles. */
  readonly ownFiles: ConfigFiles
  readonly catalogue: Catalogue
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly broker: BrokerAddress
  readonly environmentAllow: readonly string[]
  readonly extraEnvironment: Readonly<Record<string, string>>
  readonly endpoints?: readonly Endpoint[] | undefined
  readonly permissions: "allow" | "relay"
  /** Whether the session directs others, unless the session agent's config says it. */
  readonly isOrchestrator: boolean
  readonly allowedModels: readonly string[] | undefined
  readonly bashTimeoutMs: number
  readonly hiddenTools?: readonly string[]
  readonly unusedTools?: readonly string[]
  /** The chosen set of tools; the default is `all`. */
  readonly toolSet?: ToolSet
  readonly user: AgentUser | undefined
  readonly opencodeVersion: string
  readonly workDir: string
  /** Further instruction files, of other components. */
  readonly instructionFiles?: readonly string[]
  /** The program that runs the agent's commands. Absent: OpenCode chooses. */
  readonly shell?: string | undefined
}

/** Throws a ConfigError that lists all problems; has no side effects. */
export const launchPlanFor =
  (options: LaunchPlanOptions) =>
  (runtime: RuntimeConfig): LaunchPlan => {
    const { directories, user } = options
    const isOrchestrator = runtime.isOrchestrator ?? options.isOrchestrator
    const files = filesFor(options.files, isOrchestrator)
    const config = composeConfig({
      base: baseConfig(options.files),
      runtime,
      environment: options.environment,
      ...(options.endpoints && { endpoints: options.endpoints }),
      broker: options.broker,
      providerAddresses: { ...options.catalogue.addresses, ...knownProviders },
      permissions: options.permissions,
      allowedModels: options.allowedModels,
      hiddenTools: options.hiddenTools ?? [],
      unusedTools: options.unusedTools ?? [],
      fixedInstructionFiles: [
        ...Object.keys(files)
          .filter((path) => path.startsWith("instructions/"))
          .filter((path) => isForSet(path, options.toolSet ?? "all"))
          .map((path) => join(directories.config, path)),
        ...(options.instructionFiles ?? []),
      ],
      instructionsFile: directories.instructionsFile,
      shell: options.shell,
    })
    const passed = agentEnvironment(options.environment, options.environmentAllow)
    const environment = {
      ...passed,
      ...withLoopbackDirect(passed),
      ...(user && { USER: user.name, LOGNAME: user.name, HOME: user.home }),
      ...directories.environment,
      ...offline,
      OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS: String(options.bashTimeoutMs),
      ...options.extraEnvironment,
    }
    const code = Object.entries(files).filter(([path]) => isCode(path))
    const otherSources = {
      allowedVariables: options.environmentAllow.filter((name) => name in passed),
      plugins: Object.keys(files).filter(
        (path) => path.startsWith("plugins/") && files[path] !== options.ownFiles[path],
      ),
    }
    const catalogue = options.catalogue.covers(config, otherSources)
      ? options.catalogue.text
      : undefined
    const startHash = hashOf([
      code,
      environment,
      options.opencodeVersion,
      options.workDir,
      user?.uid,
      isOrchestrator,
    ])
    const processHash = hashOf([startHash, catalogue !== undefined])
    const hash = hashOf([processHash, config, files])
    return { runtime, config, files, environment, catalogue, hash, processHash, startHash }
  }

/** `instructions/<set>.md` is about tools of that set; every other file is for all sessions. */
const isForSet = (path: string, set: ToolSet): boolean => {
  const of = toolSets.findIndex((name) => path === `instructions/${name}.md`)
  return of <= toolSets.indexOf(set)
}

const hashOf = (value: unknown): string =>
  new Bun.CryptoHasher("sha256").update(JSON.stringify(value)).digest("hex")
