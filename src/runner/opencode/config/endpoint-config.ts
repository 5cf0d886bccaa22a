/** Model endpoints in OpenCode's config: providers with their addresses and models, keys, and the default model. Pure. */
import { type Endpoint, type EndpointModel, firstModel } from "./endpoints.ts"

const DEFAULT_CONTEXT = 128_000
const DEFAULT_OUTPUT = 8192

export const endpointProviders = (
  endpoints: readonly Endpoint[],
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    endpoints.flatMap((endpoint) =>
      endpoint.baseUrl === undefined ? [] : [[endpoint.providerId, providerOf(endpoint)]],
    ),
  )

const providerOf = ({ baseUrl, protocol, models }: Endpoint) => {
  const entries = Object.fromEntries(models.map((model) => [model.id, modelEntry(model)]))
  if (protocol === "openai")
    return {
      npm: "@ai-sdk/openai-compatible",
      name: baseUrl,
      options: { baseURL: baseUrl },
      models: entries,
    }
  // OpenCode knows the models of this provider; the endpoint may offer a part of them, or others.
  return {
    options: { baseURL: baseUrl },
    ...(models.length > 0 && { models: entries, whitelist: models.map(({ id }) => id) }),
  }
}

/** Servers refuse a request that reserves more output than the context holds. */
const modelEntry = ({ id, context = DEFAULT_CONTEXT }: EndpointModel) => ({
  name: id,
  tool_call: true,
  limit: { context, output: Math.min(DEFAULT_OUTPUT, Math.floor(context / 4)) },
})

/** Without a key for an endpoint that needs none. */
export const endpointKeys = (
  endpoints: readonly Endpoint[],
): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(endpoints.map(({ providerId, key }) => [providerId, key]))

/** `model` of OpenCode's config, if the preferred endpoint has listed its models. */
export const modelOf = ([preferred]: readonly Endpoint[]): { readonly model?: string } => {
  if (preferred?.baseUrl === undefined) return {}
  const model = firstModel(preferred)
  return model === undefined ? {} : { model: `${preferred.providerId}/${model}` }
}
