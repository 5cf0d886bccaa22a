/** What OpenCode is started with: base file + what the session agent sent + provider keys -> files and environment. Pure. */
import base from "../../opencode-config/opencode.json"
import type { Inbound } from "../protocol/index.ts"

export type RuntimeConfig = Inbound<"opencode-config">["config"]

export interface Settings {
  readonly config: Readonly<Record<string, unknown>>
  /** OpenCode's `auth.json`: provider -> key. */
  readonly auth: Readonly<Record<string, { readonly type: "api"; readonly key: string }>>
}

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

type Environment = Readonly<Record<string, string | undefined>>

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

export const composeSettings = (runtime: RuntimeConfig, environment: Environment): Settings => {
  const custom = runtime.customProviders ?? []
  const keys = { ...providerKeysOf(environment), ...runtime.providerKeys }
  const customKeys = custom.flatMap(({ providerId, apiKey }) =>
    apiKey === undefined ? [] : [[providerId, apiKey] as const],
  )
  return {
    config: {
      ...base,
      ...(runtime.tools && { tools: runtime.tools }),
      ...(custom.length > 0 && {
        provider: Object.fromEntries(
          custom.map((provider) => [provider.providerId, customProvider(provider)]),
        ),
      }),
    },
    auth: Object.fromEntries(
      [...Object.entries(keys), ...customKeys].map(([provider, key]) => [
        provider,
        { type: "api", key } as const,
      ]),
    ),
  }
}

type CustomProvider = NonNullable<RuntimeConfig["customProviders"]>[number]

const customProvider = ({ displayName, baseUrl, models }: CustomProvider) => ({
  npm: "@ai-sdk/openai-compatible",
  name: displayName,
  options: { baseURL: baseUrl },
  models: Object.fromEntries(
    models.map(({ id, name, contextLimit, outputLimit }) => [
      id,
      {
        name: name ?? id,
        tool_call: true,
        ...((contextLimit !== undefined || outputLimit !== undefined) && {
          limit: { context: contextLimit ?? 128_000, output: outputLimit ?? 8192 },
        }),
      },
    ]),
  ),
})

/**
 * Variables the agent may see. The runner's own (its tokens, its keys) are not on the list, so a tool that prints
 * its environment shows none of them.
 */
const PASSED_ON = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "TERM",
  "TMPDIR",
  "TZ",
  "LANG",
  "LANGUAGE",
  "DISPLAY",
  "XAUTHORITY",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "http_proxy",
  "https_proxy",
  "no_proxy",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "NODE_EXTRA_CA_CERTS",
])
const PASSED_ON_PREFIXES = ["LC_", "GIT_AUTHOR_", "GIT_COMMITTER_"]

export const agentEnvironment = (environment: Environment): Record<string, string> =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) => {
      const passes =
        PASSED_ON.has(name) || PASSED_ON_PREFIXES.some((prefix) => name.startsWith(prefix))
      return passes && value !== undefined ? [[name, value]] : []
    }),
  )
