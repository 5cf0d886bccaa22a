/** Asks model endpoints for their models: `GET /models`, with a time limit, without following a redirect. */
import { describeError } from "../../../lib/log.ts"
import { assumedEndpoints, type Endpoint, modelsIn } from "./endpoints.ts"

/** A person waits for the answer, and an unreachable endpoint must be reported within three seconds. */
const CONFIGURED_LIMIT_MS = 2000
/** Servers on this machine respond at once, or are not there. */
const ASSUMED_LIMIT_MS = 700

export type Answer =
  | { readonly kind: "models"; readonly endpoint: Endpoint }
  /** It responds, but has no list of models: one must be named. */
  | { readonly kind: "no list"; readonly endpoint: Endpoint; readonly status: number }
  | { readonly kind: "refused"; readonly endpoint: Endpoint; readonly status: number }
  | { readonly kind: "unreachable"; readonly endpoint: Endpoint; readonly why: string }

/** The endpoint needs a base URL. Its key is sent to that address and to no other. */
export const askForModels = async (endpoint: Endpoint, limitMs: number): Promise<Answer> => {
  const signal = AbortSignal.timeout(limitMs)
  const baseUrl = endpoint.baseUrl ?? ""
  const first = await ask(endpoint, baseUrl, signal)
  // OpenAI's clients take the address with the version; people often leave it out.
  const second =
    first.kind === "no list" && !/\/v\d+$/.test(baseUrl)
      ? await ask(endpoint, `${baseUrl}/v1`, signal)
      : first
  return second.kind === "models" ? second : first
}

const ask = async (endpoint: Endpoint, baseUrl: string, signal: AbortSignal): Promise<Answer> => {
  try {
    const response = await fetch(`${baseUrl}/models`, {
      headers: keyHeaders(endpoint),
      // A redirect would carry the key to another host.
      redirect: "manual",
      signal,
    })
    const { status } = response
    if (status === 401 || status === 403) return { kind: "refused", endpoint, status }
    const models = response.ok ? modelsIn(await response.json().catch(() => undefined)) : undefined
    if (models === undefined) return { kind: "no list", endpoint, status }
    return { kind: "models", endpoint: { ...endpoint, baseUrl, models } }
  } catch (error) {
    const why = signal.aborted ? "no response in time" : describeError(error)
    return { kind: "unreachable", endpoint, why }
  }
}

const keyHeaders = ({ providerId, key }: Endpoint): Record<string, string> => {
  if (providerId === "anthropic")
    return { "anthropic-version": "2023-06-01", ...(key !== undefined && { "x-api-key": key }) }
  if (key === undefined) return {}
  return providerId === "google" ? { "x-goog-api-key": key } : { authorization: `Bearer ${key}` }
}

/** What is wrong with an endpoint, and what to check; undefined if it can be used. */
export const problemOf = (answer: Answer): string | undefined => {
  const { source, baseUrl = "", key, protocol } = answer.endpoint
  const where = `${source}: ${baseUrl}`
  switch (answer.kind) {
    case "models":
      return answer.endpoint.models.length === 0
        ? `${where} has no model. Load one there, or name one with --model NAME.`
        : undefined
    case "no list":
      return protocol !== "openai"
        ? undefined
        : `${where} responds with ${answer.status} to GET ${baseUrl}/models. Check the address (most end in /v1), or name a model with --model NAME.`
    case "refused":
      return key === undefined
        ? `${where} requires a key (HTTP ${answer.status}). Set ${keyVariable(answer.endpoint)}.`
        : `${where} rejects the key in ${keyVariable(answer.endpoint)} (HTTP ${answer.status}). Check that the key belongs to this endpoint.`
    case "unreachable":
      return `${where} cannot be reached (${answer.why}). Check that the server runs and that the address is right: curl ${baseUrl}/models`
  }
}

const keyVariable = ({ protocol, source }: Endpoint): string => {
  if (protocol === "catalogue") return source
  return protocol === "anthropic" ? "ANTHROPIC_API_KEY" : "OPENAI_API_KEY"
}

export interface Discovery {
  readonly endpoints: readonly Endpoint[]
  /** One sentence for each endpoint that cannot be used as it is. */
  readonly problems: readonly EndpointProblem[]
}

export interface EndpointProblem {
  readonly providerId: string
  readonly text: string
  /** A named model solves it: the endpoint responds, only its list of models is missing. */
  readonly needsModel: boolean
}

/** Without any endpoint, those of `localUrls` are asked; they count only if they respond with models. */
export const discoverEndpoints = async (
  configured: readonly Endpoint[],
  localUrls: readonly string[],
): Promise<Discovery> => {
  if (configured.length === 0) return { endpoints: await findLocal(localUrls), problems: [] }
  const answers = await Promise.all(
    configured.map(async (endpoint): Promise<Answer> =>
      endpoint.baseUrl === undefined
        ? { kind: "models", endpoint }
        : askForModels(endpoint, CONFIGURED_LIMIT_MS),
    ),
  )
  const problems = answers.flatMap((answer) => {
    const text = answer.endpoint.baseUrl === undefined ? undefined : problemOf(answer)
    const needsModel = answer.kind === "no list" || answer.kind === "models"
    return text === undefined ? [] : [{ providerId: answer.endpoint.providerId, text, needsModel }]
  })
  return { endpoints: answers.map(({ endpoint }) => endpoint), problems }
}

const findLocal = async (urls: readonly string[]): Promise<readonly Endpoint[]> => {
  const asked = assumedEndpoints(urls).map((endpoint) => askForModels(endpoint, ASSUMED_LIMIT_MS))
  return (await Promise.all(asked)).flatMap(({ kind, endpoint }) =>
    kind === "models" && endpoint.models.length > 0 ? [endpoint] : [],
  )
}
