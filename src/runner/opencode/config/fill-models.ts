/** Asks endpoints of the session agent's config for their models where the config names none. */
import type { RuntimeConfig } from "./compose-config.ts"
import { type Answer, askForModels } from "./discover-endpoints.ts"

/** A person waits for the result. */
const LIMIT_MS = 3000

export interface Filled {
  /** Without the endpoints whose models are not known: the rest of the config is applied. */
  readonly change: RuntimeConfig
  readonly problem?: string
}

type Provider = NonNullable<RuntimeConfig["customProviders"]>[number]

export const lacksModels = ({ customProviders = [] }: RuntimeConfig): boolean =>
  customProviders.some(({ models }) => models.length === 0)

/** The key of an endpoint is sent to its address and to no other. */
export const fillModels = async (
  change: RuntimeConfig,
  ask: typeof askForModels = askForModels,
): Promise<Filled> => {
  if (!lacksModels(change)) return { change }
  const providers = change.customProviders ?? []
  const filled = await Promise.all(providers.map((provider) => fill(provider, ask)))
  const problems = filled.flatMap((one) => ("problem" in one ? [one.problem] : []))
  const customProviders = filled.flatMap((one) => ("provider" in one ? [one.provider] : []))
  return {
    change: { ...change, customProviders },
    ...(problems.length > 0 && { problem: problems.join(" ") }),
  }
}

const fill = async (
  provider: Provider,
  ask: typeof askForModels,
): Promise<{ readonly provider: Provider } | { readonly problem: string }> => {
  if (provider.models.length > 0) return { provider }
  const answer = await ask(
    {
      providerId: provider.providerId,
      source: provider.displayName,
      baseUrl: provider.baseUrl.replace(/\/+$/, ""),
      key: provider.apiKey,
      models: [],
      protocol: "openai",
    },
    LIMIT_MS,
  )
  if (answer.kind !== "models") return { problem: problemOf(answer) }
  const { baseUrl = provider.baseUrl, models } = answer.endpoint
  if (models.length === 0)
    return { problem: `${provider.displayName} has no model: load one there, or name one.` }
  return {
    provider: {
      ...provider,
      baseUrl,
      models: models.map(({ id, context }) => ({
        id,
        ...(context !== undefined && { contextLimit: context }),
      })),
    },
  }
}

const problemOf = (answer: Exclude<Answer, { kind: "models" }>): string => {
  const { source, baseUrl = "", key } = answer.endpoint
  switch (answer.kind) {
    case "no list":
      return `${source} responds with ${answer.status} to GET ${baseUrl}/models: check the address (most end in /v1), or name a model.`
    case "refused":
      return key === undefined
        ? `${source} requires a key (HTTP ${answer.status}).`
        : `${source} rejects the key (HTTP ${answer.status}): check that it belongs to this endpoint.`
    case "unreachable":
      return `${source} cannot be reached (${answer.why}): check that the server runs and that the address is right.`
  }
}
