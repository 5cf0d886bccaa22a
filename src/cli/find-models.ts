/** The model endpoints of this machine and the settings that follow from them: the model by its full name. */
import {
  type Endpoint,
  endpointsOf,
  isLocal,
  isUsable,
  resolveModel,
  withNamedModel,
} from "../runner/opencode/config/endpoints.ts"
import {
  discoverEndpoints,
  type EndpointProblem,
} from "../runner/opencode/config/discover-endpoints.ts"
import type { Settings } from "../settings/settings.ts"
import { SettingsError } from "../settings/settings-error.ts"
import type { ToolSet } from "../wire/operations/tool-sets.ts"

export interface FoundModels {
  readonly endpoints: readonly Endpoint[]
  /** Those of them without a problem. */
  readonly working: readonly Endpoint[]
  /** One sentence for each endpoint that cannot be used, with what to check. */
  readonly problems: readonly string[]
  /** `provider/model`. */
  readonly model: string | undefined
}

/** Takes less than three seconds, and no time without an endpoint to ask. */
export const findModels = async (settings: Settings): Promise<FoundModels> => {
  const configured = endpointsOf(settings, settings.environment)
  const { endpoints, problems } = await discoverEndpoints(configured, settings.localModels)
  const model = settings.model && fullName(settings.model, endpoints)
  const complete = withNamedModel(endpoints, model)
  const isSolved = ({ providerId, needsModel }: EndpointProblem) =>
    needsModel && complete.some((one) => one.providerId === providerId && isUsable(one))
  const open = problems.filter((problem) => !isSolved(problem))
  return {
    endpoints: complete,
    working: complete.filter((one) =>
      open.every(({ providerId }) => providerId !== one.providerId),
    ),
    problems: open.map(({ text }) => text),
    model,
  }
}

const fullName = (name: string, endpoints: readonly Endpoint[]): string => {
  const full = resolveModel(name, endpoints)
  if (full !== undefined) return full
  const providers = endpoints.map(({ providerId }) => `${providerId}/${name}`)
  const advice =
    providers.length === 0 ? "such as anthropic/claude-sonnet-4" : providers.join(" or ")
  throw new SettingsError(`SANDPIPER_MODEL (--model) must be provider/model here: ${advice}`)
}

/** The set of tools if none is chosen: local models are small and slow with a long request. */
export const defaultToolSet = ([preferred]: readonly Endpoint[]): ToolSet =>
  preferred !== undefined && isLocal(preferred) ? "core" : "team"
