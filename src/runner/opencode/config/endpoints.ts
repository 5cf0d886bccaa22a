/**
 * Model endpoints by convention: which servers the environment names, with which key, and what a list of models says. Pure;
 * `discover-endpoints.ts` makes the calls.
 */
import { z } from "zod"
import { isLoopback } from "../../../lib/git-url.ts"

export interface EndpointModel {
  readonly id: string
  /** Context length in tokens, if the endpoint states it. */
  readonly context?: number
}

export interface Endpoint {
  /** OpenCode's id of the provider. */
  readonly providerId: string
  /** Where the address or key was found, such as OPENAI_BASE_URL. */
  readonly source: string
  /** Undefined: the provider's own address. */
  readonly baseUrl: string | undefined
  readonly key: string | undefined
  /** Empty for a provider whose models OpenCode knows. */
  readonly models: readonly EndpointModel[]
  /** How the key is sent, and whether OpenCode has the models of this provider in its catalogue. */
  readonly protocol: "openai" | "anthropic" | "catalogue"
  /** Found by asking, without a setting that names it. A session agent with models of its own has precedence. */
  readonly isAssumed?: true
}

export interface EndpointSettings {
  readonly baseUrl?: string | undefined
  readonly anthropicBaseUrl?: string | undefined
  readonly ollamaHost?: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/** Environment variable -> OpenCode's id of the provider. */
const providerKeyVariables: Readonly<Record<string, string>> = {
  ANTHROPIC_API_KEY: "anthropic",
  OPENAI_API_KEY: "openai",
  GOOGLE_API_KEY: "google",
  GEMINI_API_KEY: "google",
  OPENROUTER_API_KEY: "openrouter",
  GROQ_API_KEY: "groq",
  MISTRAL_API_KEY: "mistral",
  XAI_API_KEY: "xai",
  DEEPSEEK_API_KEY: "deepseek",
}

export const keyedProviders: readonly string[] = [...new Set(Object.values(providerKeyVariables))]

/** The address that OpenCode's client library uses by default. The key goes there anyway. */
const ownHosts: Readonly<Record<string, string>> = {
  openai: "api.openai.com",
  anthropic: "api.anthropic.com",
}

const COMPATIBLE = "openai-compatible"

/**
 * In the order of preference for prompts that name no model. A key whose base URL is set belongs to that endpoint only,
 * so no entry for the provider's own address has it.
 */
export const endpointsOf = (
  settings: EndpointSettings,
  environment: Environment,
): readonly Endpoint[] => {
  const openai = redirected(settings.baseUrl, "openai")
  const anthropic = redirected(settings.anthropicBaseUrl, "anthropic")
  const keyOf = (variable: string) => environment[variable] || undefined
  const ollama = ollamaUrl(settings.ollamaHost)
  return [
    ...(openai === undefined
      ? []
      : [
          {
            providerId: COMPATIBLE,
            source: "OPENAI_BASE_URL",
            baseUrl: openai,
            key: keyOf("OPENAI_API_KEY"),
            models: [],
            protocol: "openai" as const,
          },
        ]),
    ...(anthropic === undefined
      ? []
      : [
          {
            providerId: "anthropic",
            source: "ANTHROPIC_BASE_URL",
            baseUrl: versioned(anthropic),
            key: keyOf("ANTHROPIC_API_KEY"),
            models: [],
            protocol: "anthropic" as const,
          },
        ]),
    ...keyedEndpoints(environment, {
      openai: openai !== undefined,
      anthropic: anthropic !== undefined,
    }),
    ...(ollama === undefined ? [] : [localEndpoint("ollama", "OLLAMA_HOST", ollama)]),
  ]
}

const keyedEndpoints = (
  environment: Environment,
  elsewhere: Readonly<Record<string, boolean>>,
): readonly Endpoint[] => {
  const found = new Map<string, Endpoint>()
  for (const [source, providerId] of Object.entries(providerKeyVariables)) {
    const key = environment[source]
    if (!key || elsewhere[providerId] || found.has(providerId)) continue
    const protocol = "catalogue"
    found.set(providerId, { providerId, source, baseUrl: undefined, key, models: [], protocol })
  }
  return [...found.values()]
}

/** The providers whose key goes to another address: OpenCode must not use their own. */
export const redirectedProviders = (endpoints: readonly Endpoint[]): readonly string[] =>
  endpoints.some(({ providerId }) => providerId === COMPATIBLE) ? ["openai"] : []

const redirected = (baseUrl: string | undefined, provider: string): string | undefined => {
  if (baseUrl === undefined || baseUrl === "") return undefined
  return new URL(baseUrl).hostname === ownHosts[provider] ? undefined : withoutSlash(baseUrl)
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, "")

/** Anthropic's own clients take the address without the version, OpenCode's takes it with the version. */
const versioned = (url: string): string => (/\/v\d+$/.test(url) ? url : `${url}/v1`)

const OLLAMA_PORT = "11434"

/** OLLAMA_HOST as Ollama reads it: a host, host:port or URL; 0.0.0.0 is what a server binds to. */
const ollamaUrl = (host: string | undefined): string | undefined => {
  if (host === undefined || host.trim() === "") return undefined
  const text = host.includes("://") ? host.trim() : `http://${host.trim()}`
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  if (url.protocol !== "http:" && url.protocol !== "https:") return undefined
  const hasPort = url.port !== "" || url.protocol === "https:" || /:80(\/|$)/.test(text)
  if (!hasPort) url.port = OLLAMA_PORT
  if (url.hostname === "0.0.0.0" || url.hostname === "[::]") url.hostname = "127.0.0.1"
  return versioned(withoutSlash(`${url.origin}${url.pathname}`))
}

/** Servers that run on this machine by default, asked if the environment names no endpoint. */
export const assumedEndpoints = (urls: readonly string[]): readonly Endpoint[] =>
  urls.map((url) => {
    const { port } = new URL(url)
    const [providerId, name] =
      port === OLLAMA_PORT
        ? ["ollama", "Ollama"]
        : port === "1234"
          ? ["lm-studio", "LM Studio"]
          : [`local-${port}`, "a local server"]
    return { ...localEndpoint(providerId, name, versioned(withoutSlash(url))), isAssumed: true }
  })

const localEndpoint = (providerId: string, source: string, baseUrl: string): Endpoint => ({
  providerId,
  source,
  baseUrl,
  key: undefined,
  models: [],
  protocol: "openai",
})

/** `GET /models` in the forms of OpenAI, Anthropic, OpenRouter, vLLM, LM Studio, Groq and LiteLLM. */
const contextFields = [
  "context_length",
  "max_model_len",
  "loaded_context_length",
  "max_context_length",
  "context_window",
  "max_input_tokens",
] as const
const modelList = z.object({ data: z.array(z.looseObject({ id: z.string().min(1) })) })
/** Google's form. */
const googleList = z.object({
  models: z.array(z.object({ name: z.string().min(1), inputTokenLimit: z.number().optional() })),
})

/** Undefined if the response is not a list of models. */
export const modelsIn = (response: unknown): readonly EndpointModel[] | undefined => {
  const parsed = modelList.safeParse(response)
  if (!parsed.success) return googleModels(response)
  const models = parsed.data.data.map((model): EndpointModel => {
    const told = contextFields.map((field) => model[field])
    const context = told.find((value) => typeof value === "number" && value > 0)
    return { id: model.id, ...(typeof context === "number" && { context }) }
  })
  return [...new Map(models.map((model) => [model.id, model])).values()]
}

const googleModels = (response: unknown): readonly EndpointModel[] | undefined =>
  googleList.safeParse(response).data?.models.map(({ name, inputTokenLimit: context }) => ({
    id: name.replace(/^models\//, ""),
    ...(context !== undefined && { context }),
  }))

/** Models for other purposes, which endpoints list beside those for a conversation. */
const OTHER_PURPOSE =
  /embed|whisper|tts|rerank|moderation|dall-e|transcribe|speech|image|bge-|davinci|babbage/i

/** The model for prompts that name none: the first that can hold a conversation. */
export const firstModel = ({ models }: Endpoint): string | undefined =>
  (models.find(({ id }) => !OTHER_PURPOSE.test(id)) ?? models[0])?.id

/** `provider/model` for what a person typed; undefined if it is not clear which endpoint is meant. */
export const resolveModel = (name: string, endpoints: readonly Endpoint[]): string | undefined => {
  if (endpoints.some(({ providerId }) => name.startsWith(`${providerId}/`))) return name
  const listing = endpoints.filter(({ models }) => models.some(({ id }) => id === name))
  const [owner, ...others] = listing.length > 0 ? listing : endpoints
  const isOnly = owner !== undefined && others.length === 0
  const isQualified = /^[^/\s]+\/\S+$/.test(name)
  // A name with a slash may be a model of this endpoint, as `meta-llama/Llama-3`, unless OpenCode knows the endpoint's models.
  if (isOnly && (owner.baseUrl !== undefined || !isQualified)) return `${owner.providerId}/${name}`
  return isQualified ? name : undefined
}

/** Adds the model that a person named to its endpoint: not every endpoint lists all its models. */
export const withNamedModel = (
  endpoints: readonly Endpoint[],
  model: string | undefined,
): readonly Endpoint[] =>
  endpoints.map((endpoint) => {
    const prefix = `${endpoint.providerId}/`
    if (endpoint.baseUrl === undefined || !model?.startsWith(prefix)) return endpoint
    const id = model.slice(prefix.length)
    if (endpoint.models.some((known) => known.id === id)) return endpoint
    return { ...endpoint, models: [...endpoint.models, { id }] }
  })

/** True for this machine and private networks, where small models usually run. */
export const isLocal = ({ baseUrl }: Endpoint): boolean => {
  if (baseUrl === undefined) return false
  const { hostname } = new URL(baseUrl)
  return (
    isLoopback(hostname) ||
    /^(10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(hostname) ||
    hostname.endsWith(".local") ||
    hostname === "host.docker.internal"
  )
}

/** True if a prompt can be sent: the models are listed or named, or OpenCode knows them. */
export const isUsable = ({ models, protocol }: Endpoint): boolean =>
  protocol !== "openai" || models.length > 0
