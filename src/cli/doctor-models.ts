/** The model checks of `sandpiper doctor`: every endpoint is asked for its models, and the finding names what came. */
import {
  type Answer,
  askForModels,
  discoverEndpoints,
  problemOf,
} from "../runner/opencode/config/discover-endpoints.ts"
import { type Endpoint, endpointsOf } from "../runner/opencode/config/endpoints.ts"
import { knownProviders } from "../runner/broker/upstreams.ts"
import type { Settings } from "../settings/settings.ts"
import type { Finding } from "./doctor.ts"

const LIMIT_MS = 5000
const NAMED_MODELS = 3

const what = "model"

export const modelFindings = async (settings: Settings): Promise<readonly Finding[]> => {
  const configured = endpointsOf(settings, settings.environment)
  if (configured.length > 0) return Promise.all(configured.map(findingOf))
  const { endpoints } = await discoverEndpoints([], settings.localModels)
  if (endpoints.length > 0)
    return endpoints.map((endpoint) => described({ kind: "models", endpoint }))
  const text =
    "no provider key is set and no local server has models: the session agent must provide one"
  return [{ what, verdict: "warn", text }]
}

/** A key without a base URL is checked at the provider's own address, where the agent sends it too. */
const findingOf = async (endpoint: Endpoint): Promise<Finding> => {
  const baseUrl = endpoint.baseUrl ?? knownProviders[endpoint.providerId]?.baseUrl
  if (baseUrl === undefined)
    return { what, verdict: "ok", text: `${endpoint.source} is set, not checked` }
  return described(await askForModels({ ...endpoint, baseUrl }, LIMIT_MS))
}

const described = (answer: Answer): Finding => {
  const problem = problemOf(answer)
  if (problem !== undefined) return { what, verdict: "warn", text: problem }
  const { source, baseUrl, models } = answer.endpoint
  const names = models
    .slice(0, NAMED_MODELS)
    .map(({ id, context }) => (context === undefined ? id : `${id} (${context} tokens)`))
  const more = models.length > names.length ? ", ..." : ""
  const list =
    models.length === 0
      ? "no list of models"
      : `${models.length} models: ${names.join(", ")}${more}`
  return { what, verdict: "ok", text: `${source}: ${baseUrl} has ${list}` }
}
