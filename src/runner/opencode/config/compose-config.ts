/** Composes OpenCode's config from the base file, the session agent's config and the provider keys. Pure. */
import type { Service } from "../../broker/services.ts"
import type { Upstream, UpstreamAddress } from "../../broker/upstreams.ts"
import { isWebUrl } from "../../../lib/web-url.ts"
import type { Inbound } from "../../../wire/frames/index.ts"
import { endpointKeys, endpointProviders, modelOf } from "./endpoint-config.ts"
import { type Endpoint, endpointsOf, redirectedProviders } from "./endpoints.ts"
import { mcpProblems, mcpConfig } from "./mcp.ts"

export type RuntimeConfig = Inbound<"opencode-config">["config"]

/** Lists every problem of a configuration; none of it is applied. */
export class ConfigError extends Error {
  override readonly name = "ConfigError"
}

export interface OpenCodeConfig {
  /** The content of opencode.json. */
  readonly opencodeJson: Readonly<Record<string, unknown>>
  /** The content of auth.json: provider -> the broker's token, never a key. */
  readonly auth: Readonly<Record<string, { readonly type: "api"; readonly key: string }>>
  /** The session agent's instructions: the content of `instructionsFile`. */
  readonly instructions: string
  /** The providers as the key broker calls them, with their keys. Never written to a file. */
  readonly upstreams: Readonly<Record<string, Upstream>>
  /** MCP servers with a credential, as the key broker calls them. Never written to a file. */
  readonly services: Readonly<Record<string, Service>>
}

/** Where OpenCode sends its model calls, and what it shows there in place of a key. */
export interface BrokerAddress {
  readonly origin: string
  readonly token: string
}

export interface ConfigInput {
  readonly base: Readonly<Record<string, unknown>>
  readonly runtime: RuntimeConfig
  readonly environment: Environment
  /** Model endpoints; the default is what the environment names, without asking them for their models. */
  readonly endpoints?: readonly Endpoint[]
  readonly broker: BrokerAddress
  /** Where the API of a provider is that is neither custom nor in the base config with an address. */
  readonly providerAddresses: Readonly<Record<string, UpstreamAddress>>
  /** `relay`: OpenCode asks before it edits, runs commands or leaves the workspace. */
  readonly permissions: "allow" | "relay"
  /** `provider/model` or `provider/*`; undefined allows every model of a connected provider. */
  readonly allowedModels: readonly string[] | undefined
  /** Tools that cannot work in this sandbox: off, even if the session agent enables them. */
  readonly hiddenTools?: readonly string[]
  /** Tools outside the chosen set: off, unless the session agent enables them. */
  readonly unusedTools?: readonly string[]
  /** Files that the agent always reads. */
  readonly fixedInstructionFiles: readonly string[]
  /** The file that the session agent's instructions are written to. */
  readonly instructionsFile: string
  /** The program that runs the agent's commands. Absent: OpenCode chooses. */
  readonly shell?: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/** `change` is partial: fields that it does not have keep their value. */
export const mergeConfig = (current: RuntimeConfig, change: RuntimeConfig): RuntimeConfig => ({
  ...current,
  ...change,
})

/** A provider at a closed port (9, `discard`): a prompt to it loads everything and reaches no model. */
export const WARM_UP_MODEL = { providerID: "sandpiper-warm-up", modelID: "none" } as const

const warmUpProvider = {
  npm: "@ai-sdk/openai-compatible",
  name: "Warm-up (not a real provider)",
  options: { baseURL: "http://127.0.0.1:9/v1", apiKey: "none" },
  models: { [WARM_UP_MODEL.modelID]: { name: "None", tool_call: true } },
}

const RELAY_RULES = {
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
  if (problems.length > 0) throw new ConfigError(`configuration refused: ${problems.join("; ")}`)
  const custom = runtime.customProviders ?? []
  const endpoints = endpointsFor(input)
  const given = {
    ...recordOf(base["provider"]),
    ...endpointProviders(endpoints),
    ...Object.fromEntries(custom.map((one) => [one.providerId, customProvider(one)])),
  }
  const upstreams = upstreamsOf(input, given, endpoints)
  const brokered = throughBroker(given, Object.keys(upstreams), input.broker.origin)
  const provider = withAllowList(brokered, allowedModels)
  const enabled = allowedModels
    ? [...new Set(allowedModels.map(providerOf))]
    : Array.isArray(base["enabled_providers"]) && stringsOf(base["enabled_providers"])
  const toolSwitches = {
    ...recordOf(base["tools"]),
    ...allOff(withoutNamed(input.unusedTools ?? [], runtime.tools ?? {})),
    ...runtime.tools,
    ...allOff(input.hiddenTools ?? []),
  }
  const sessionInstructions = runtime.instructions ?? []
  const { servers, services } = mcpConfig(runtime.mcpServers ?? {}, input.broker)
  const mcp = { ...recordOf(base["mcp"]), ...servers }
  const instructions = [
    ...stringsOf(base["instructions"]),
    ...input.fixedInstructionFiles,
    ...(sessionInstructions.length > 0 ? [input.instructionsFile] : []),
  ]
  return {
    opencodeJson: {
      ...rest,
      ...(input.shell !== undefined && { shell: input.shell }),
      ...toolRules(input.permissions === "relay" ? RELAY_RULES : base["permission"], toolSwitches),
      ...(enabled && { enabled_providers: [...enabled, WARM_UP_MODEL.providerID] }),
      ...disabledProviders(base, runtime, endpoints),
      ...(!hasOwnModels(runtime) && modelOf(endpoints)),
      provider: { ...provider, [WARM_UP_MODEL.providerID]: warmUpProvider },
      ...(instructions.length > 0 && { instructions }),
      ...(Object.keys(mcp).length > 0 && { mcp }),
    },
    auth: Object.fromEntries(
      Object.keys(upstreams).map((id) => [id, { type: "api", key: input.broker.token } as const]),
    ),
    upstreams,
    services,
    instructions: sessionInstructions.length === 0 ? "" : `${sessionInstructions.join("\n\n")}\n`,
  }
}

/** The session agent's own models make an endpoint that was found by chance superfluous. */
const endpointsFor = ({ endpoints, environment, runtime }: ConfigInput): readonly Endpoint[] =>
  (endpoints ?? endpointsOf({}, environment)).filter(
    ({ isAssumed }) => !isAssumed || !hasOwnModels(runtime),
  )

const hasOwnModels = ({ customProviders = [], providerKeys = {} }: RuntimeConfig): boolean =>
  customProviders.length + Object.keys(providerKeys).length > 0

/** A provider whose key belongs to another address is disabled, unless the session agent has a key for it. */
const disabledProviders = (
  base: ConfigInput["base"],
  { customProviders = [], providerKeys = {} }: RuntimeConfig,
  endpoints: readonly Endpoint[],
) => {
  const own = new Set([
    ...Object.keys(providerKeys),
    ...customProviders.map(({ providerId }) => providerId),
  ])
  const redirected = redirectedProviders(endpoints).filter((id) => !own.has(id))
  if (redirected.length === 0) return {}
  return { disabled_providers: [...stringsOf(base["disabled_providers"]), ...redirected] }
}

const allOff = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, false]))

/** The names that no pattern of the session agent turns on, such as `run_workflow` or `*_workflow`. */
const withoutNamed = (
  names: readonly string[],
  switches: NonNullable<RuntimeConfig["tools"]>,
): readonly string[] => {
  const on = Object.keys(switches).filter((pattern) => switches[pattern] !== false)
  const patterns = on.map(
    (pattern) => new RegExp(`^${pattern.replaceAll("*", ".*").replaceAll("?", ".")}$`),
  )
  return names.filter((name) => !patterns.some((pattern) => pattern.test(name)))
}

/**
 * Tools that are off get a `deny` rule after all other rules. `tools: false` would have no effect: OpenCode turns it
 * into a rule that comes first, and the last matching rule wins, such as one that allows everything.
 */
const toolRules = (rules: unknown, toolSwitches: Readonly<Record<string, unknown>>) => {
  const names = Object.keys(toolSwitches)
  const on = names.filter((name) => toolSwitches[name] !== false)
  const off = names.filter((name) => toolSwitches[name] === false)
  const permission = {
    ...recordOf(rules),
    ...Object.fromEntries(off.map((name) => [name, "deny"])),
  }
  return {
    ...(Object.keys(permission).length > 0 && { permission }),
    ...(on.length > 0 && { tools: Object.fromEntries(on.map((name) => [name, true])) }),
  }
}

/** Every provider with a key, every endpoint with an address, and every custom one. */
const upstreamsOf = (
  { runtime, providerAddresses }: ConfigInput,
  providers: Readonly<Record<string, unknown>>,
  endpoints: readonly Endpoint[],
): Readonly<Record<string, Upstream>> => {
  const custom = runtime.customProviders ?? []
  const keys: Readonly<Record<string, string | undefined>> = {
    ...keysIn(providers),
    ...endpointKeys(endpoints),
    ...runtime.providerKeys,
    ...Object.fromEntries(
      custom.map(({ providerId, apiKey }) => [providerId, apiKey || undefined]),
    ),
  }
  const upstreams: Record<string, Upstream> = {}
  for (const [id, key] of Object.entries(keys)) {
    const known = providerAddresses[id]
    const baseUrl = optionOf(providers[id], "baseURL") ?? known?.baseUrl
    if (baseUrl === undefined)
      throw new ConfigError(
        `configuration refused: the address of provider ${id} is not known; send it as a custom provider with a baseUrl`,
      )
    upstreams[id] = { baseUrl, auth: known?.auth ?? "bearer", ...(key !== undefined && { key }) }
  }
  return upstreams
}

/** Keys that the base config holds in clear; OpenCode replaces a `{env:...}` or `{file:...}` itself. */
const keysIn = (providers: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(providers).flatMap(([id, provider]) => {
      const key = optionOf(provider, "apiKey")
      return key === undefined || key.startsWith("{") ? [] : [[id, key]]
    }),
  )

const optionOf = (provider: unknown, name: string): string | undefined => {
  const value = recordOf(recordOf(provider)["options"])[name]
  return typeof value === "string" && value !== "" ? value : undefined
}

/** The providers with the broker's address in place of their own, and without keys. */
const throughBroker = (
  providers: Readonly<Record<string, unknown>>,
  ids: readonly string[],
  origin: string,
): Readonly<Record<string, unknown>> => ({
  ...providers,
  ...Object.fromEntries(
    ids.map((id) => {
      const provider = recordOf(providers[id])
      const { apiKey: _apiKey, ...options } = recordOf(provider["options"])
      return [id, { ...provider, options: { ...options, baseURL: `${origin}/${id}` } }]
    }),
  ),
})

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
        // OpenCode withholds inputs that a model does not declare, and states in the prompt that the model cannot read them.
        ...(inputs && { attachment: true, modalities: { input: inputs, output: ["text"] } }),
        ...((contextLimit !== undefined || outputLimit !== undefined) && {
          limit: { context: contextLimit ?? 128_000, output: outputLimit ?? 8192 },
        }),
      },
    ]),
  ),
})

const providerOf = (model: string): string => model.slice(0, model.indexOf("/"))

/** Sets OpenCode's `whitelist` for each provider; `provider/*` needs none. */
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
const MAX_INSTRUCTIONS_LENGTH = 256 * 1024

/** OpenCode accepts some of these without an error and then fails every prompt, so they are checked here. */
const problemsOf = (runtime: RuntimeConfig): readonly string[] => {
  const custom = runtime.customProviders ?? []
  const ids = custom.map(({ providerId }) => providerId)
  const length = (runtime.instructions ?? []).reduce((sum, { length: one }) => sum + one, 0)
  return [
    ...ids.filter((id) => !ID.test(id)).map((id) => `"${id}" is not a valid provider id`),
    ...duplicates(ids).map((id) => `provider ${id} is listed twice`),
    ...custom.flatMap(customProblems),
    ...Object.entries(runtime.providerKeys ?? {}).flatMap(([provider, key]) => [
      ...(ID.test(provider) ? [] : [`"${provider}" is not a valid provider id`]),
      ...(isKey(key) ? [] : [`the key of ${provider} is empty or has spaces or line breaks`]),
    ]),
    ...Object.keys(runtime.tools ?? {})
      .filter((tool) => !/^[\w*?-]{1,128}$/.test(tool))
      .map((tool) => `"${tool}" is not a valid tool name`),
    ...mcpProblems(runtime.mcpServers ?? {}),
    ...(length > MAX_INSTRUCTIONS_LENGTH ? ["the instructions are longer than 256 KiB"] : []),
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
  ...duplicates(models.map(({ id }) => id)).map((id) => `${providerId}/${id} is listed twice`),
]

const isKey = (key: string): boolean => /^[\x21-\x7e]+$/.test(key)

const duplicates = (names: readonly string[]): readonly string[] => [
  ...new Set(names.filter((name, index) => names.indexOf(name) !== index)),
]

const recordOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? { ...value } : {}

const stringsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((entry) => typeof entry === "string") : []
