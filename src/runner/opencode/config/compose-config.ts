/** What OpenCode is started with: base file + what the session agent sent + provider keys -> files and environment. Pure. */
import { isWebUrl } from "../../../lib/web-url.ts"
import type { Inbound } from "../../../wire/frames/index.ts"
import { mcpProblems, mcpSettings } from "./mcp.ts"

export type RuntimeConfig = Inbound<"opencode-config">["config"]

/** Says every problem of a configuration at once; none of it is applied. */
export class SettingsError extends Error {
  override readonly name = "SettingsError"
}

export interface OpenCodeConfig {
  readonly config: Readonly<Record<string, unknown>>
  /** OpenCode's `auth.json`: provider -> key. */
  readonly auth: Readonly<Record<string, { readonly type: "api"; readonly key: string }>>
  /** The session agent's sentences, as the file that `config.instructions` names. */
  readonly instructions: string
}

export interface ConfigInput {
  readonly base: Readonly<Record<string, unknown>>
  readonly runtime: RuntimeConfig
  readonly environment: Environment
  /** `relay`: OpenCode asks before it writes, runs and leaves the workspace. */
  readonly permissions: "allow" | "relay"
  /** `provider/model` or `provider/*`; without a list every model of a connected provider may be used. */
  readonly allowedModels: readonly string[] | undefined
  /** Tools that cannot work here: whoever turns them on, the model is not offered them. */
  readonly hiddenTools?: readonly string[]
  /** Files that the agent always reads, and the one that the sentences are written to. */
  readonly instructionFiles: readonly string[]
  readonly sentencesFile: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** Provider keys that are taken from the environment, under OpenCode's name of the provider. */
const providerKeyVariables: Readonly<Record<string, string>> = {
  ANTHROPIC_API_KEY: "anthropic",
  OPENAI_API_KEY: "openai",
  GOOGLE_API_KEY: "google",
  OPENROUTER_API_KEY: "openrouter",
  GROQ_API_KEY: "groq",
  MISTRAL_API_KEY: "mistral",
  XAI_API_KEY: "xai",
  DEEPSEEK_API_KEY: "deepseek",
}

export const keyedProviders: readonly string[] = Object.values(providerKeyVariables)

export const providerKeysOf = (environment: Environment): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(providerKeyVariables).flatMap(([variable, provider]) => {
      const key = environment[variable]
      return key ? [[provider, key]] : []
    }),
  )

/** A partial: what it does not name stays as it was. */
export const mergeRuntime = (known: RuntimeConfig, change: RuntimeConfig): RuntimeConfig => ({
  ...known,
  ...change,
})

/** A provider where nobody listens (port 9 is `discard`): what a prompt to it costs is everything but the model. */
export const WARM_UP_MODEL = { providerID: "sandpiper-warm-up", modelID: "none" } as const

const warmUpProvider = {
  npm: "@ai-sdk/openai-compatible",
  name: "Warm-up (nobody answers)",
  options: { baseURL: "http://127.0.0.1:9/v1", apiKey: "none" },
  models: { [WARM_UP_MODEL.modelID]: { name: "Nobody", tool_call: true } },
}

const RELAYED = {
  "*": "allow",
  edit: "ask",
  bash: "ask",
  webfetch: "ask",
  external_directory: "ask",
  doom_loop: "ask",
}

export const composeConfig = (input: ConfigInput): OpenCodeConfig => {
  const { base, runtime, allowedModels } = input
  const { tools: _tools, permission: _permission, ...rest } = base
  const problems = problemsOf(runtime)
  if (problems.length > 0) throw new SettingsError(`configuration refused: ${problems.join("; ")}`)
  const custom = runtime.customProviders ?? []
  const provider = withAllowList(
    {
      ...recordOf(base["provider"]),
      ...Object.fromEntries(custom.map((given) => [given.providerId, customProvider(given)])),
    },
    allowedModels,
  )
  const enabled = allowedModels
    ? [...new Set(allowedModels.map(providerOf))]
    : Array.isArray(base["enabled_providers"]) && listOf(base["enabled_providers"])
  const toggles = {
    ...recordOf(base["tools"]),
    ...runtime.tools,
    ...Object.fromEntries((input.hiddenTools ?? []).map((name) => [name, false])),
  }
  const sentences = runtime.instructions ?? []
  const mcp = { ...recordOf(base["mcp"]), ...mcpSettings(runtime.mcpServers ?? {}) }
  const instructions = [
    ...listOf(base["instructions"]),
    ...input.instructionFiles,
    ...(sentences.length > 0 ? [input.sentencesFile] : []),
  ]
  return {
    config: {
      ...rest,
      ...toolRules(input.permissions === "relay" ? RELAYED : base["permission"], toggles),
      ...(enabled && { enabled_providers: [...enabled, WARM_UP_MODEL.providerID] }),
      provider: { ...provider, [WARM_UP_MODEL.providerID]: warmUpProvider },
      ...(instructions.length > 0 && { instructions }),
      ...(Object.keys(mcp).length > 0 && { mcp }),
    },
    auth: authOf(input, custom),
    instructions: sentences.length === 0 ? "" : `${sentences.join("\n\n")}\n`,
  }
}

/**
 * What is off is denied behind all other rules. In `tools` it would mean nothing: OpenCode makes rules of that too, but
 * puts them first, and the last rule that fits wins, such as one that allows everything.
 */
const toolRules = (rules: unknown, toggles: Readonly<Record<string, unknown>>) => {
  const names = Object.keys(toggles)
  const on = names.filter((name) => toggles[name] !== false)
  const off = names.filter((name) => toggles[name] === false)
  const permission = {
    ...recordOf(rules),
    ...Object.fromEntries(off.map((name) => [name, "deny"])),
  }
  return {
    ...(Object.keys(permission).length > 0 && { permission }),
    ...(on.length > 0 && { tools: Object.fromEntries(on.map((name) => [name, true])) }),
  }
}

const authOf = ({ environment, runtime }: ConfigInput, custom: readonly CustomProvider[]) => {
  const keys = {
    ...providerKeysOf(environment),
    ...runtime.providerKeys,
    ...Object.fromEntries(
      custom.flatMap(({ providerId, apiKey }) => (apiKey ? [[providerId, apiKey]] : [])),
    ),
  }
  return Object.fromEntries(
    Object.entries(keys).map(([provider, key]) => [provider, { type: "api", key } as const]),
  )
}

type CustomProvider = NonNullable<RuntimeConfig["customProviders"]>[number]

const customProvider = ({ displayName, baseUrl, models }: CustomProvider) => ({
  npm: "@ai-sdk/openai-compatible",
  name: displayName,
  options: { baseURL: baseUrl },
  models: Object.fromEntries(
    models.map(({ id, name, contextLimit, outputLimit, inputs }) => [
      id,
      {
        name: name ?? id,
        tool_call: true,
        // OpenCode keeps from a model what it is not said to take, and tells the model that it cannot see it.
        ...(inputs && { attachment: true, modalities: { input: inputs, output: ["text"] } }),
        ...((contextLimit !== undefined || outputLimit !== undefined) && {
          limit: { context: contextLimit ?? 128_000, output: outputLimit ?? 8192 },
        }),
      },
    ]),
  ),
})

const providerOf = (model: string): string => model.slice(0, model.indexOf("/"))

/** OpenCode's `whitelist` of a provider; `provider/*` leaves it open. */
const withAllowList = (
  providers: Readonly<Record<string, unknown>>,
  allowed: readonly string[] | undefined,
): Readonly<Record<string, unknown>> => {
  if (!allowed) return providers
  const listed = Object.groupBy(allowed, providerOf)
  const lists = Object.entries(listed).flatMap(([provider, models = []]) => {
    const ids = models.map((model) => model.slice(provider.length + 1))
    if (ids.includes("*")) return []
    return [[provider, { ...recordOf(providers[provider]), whitelist: ids }] as const]
  })
  return { ...providers, ...Object.fromEntries(lists) }
}

const ID = /^[A-Za-z0-9][\w.-]{0,63}$/
const MOST_SENTENCES_LENGTH = 256 * 1024

/** OpenCode takes some of these without a word and then fails every prompt; here they are named beforehand. */
const problemsOf = (runtime: RuntimeConfig): readonly string[] => {
  const custom = runtime.customProviders ?? []
  const ids = custom.map(({ providerId }) => providerId)
  const length = (runtime.instructions ?? []).reduce((sum, { length: one }) => sum + one, 0)
  return [
    ...ids.filter((id) => !ID.test(id)).map((id) => `"${id}" is not a provider's id`),
    ...repeated(ids).map((id) => `provider ${id} is given twice`),
    ...custom.flatMap(customProblems),
    ...Object.entries(runtime.providerKeys ?? {}).flatMap(([provider, key]) => [
      ...(ID.test(provider) ? [] : [`"${provider}" is not a provider's id`]),
      ...(isKey(key) ? [] : [`the key of ${provider} is empty or has spaces or line breaks`]),
    ]),
    ...Object.keys(runtime.tools ?? {})
      .filter((tool) => !/^[\w*?-]{1,128}$/.test(tool))
      .map((tool) => `"${tool}" is not a tool's name`),
    ...mcpProblems(runtime.mcpServers ?? {}),
    ...(length > MOST_SENTENCES_LENGTH ? ["the instructions are longer than 256 KiB"] : []),
  ]
}

const customProblems = ({ providerId, baseUrl, apiKey, models }: CustomProvider) => [
  ...(isWebUrl(baseUrl) ? [] : [`provider ${providerId}: baseUrl must be an http or https URL`]),
  ...(apiKey === undefined || apiKey === "" || isKey(apiKey)
    ? []
    : [`provider ${providerId}: its key has spaces or line breaks`]),
  ...(models.length > 0 ? [] : [`provider ${providerId} has no model`]),
  ...(models.every(({ id }) => id.trim() === id && id !== "")
    ? []
    : [`provider ${providerId} has a model without an id`]),
  ...repeated(models.map(({ id }) => id)).map((id) => `${providerId}/${id} is given twice`),
]

const isKey = (key: string): boolean => /^[\x21-\x7e]+$/.test(key)

const repeated = (names: readonly string[]): readonly string[] => [
  ...new Set(names.filter((name, index) => names.indexOf(name) !== index)),
]

const recordOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? { ...value } : {}

const listOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((entry) => typeof entry === "string") : []
