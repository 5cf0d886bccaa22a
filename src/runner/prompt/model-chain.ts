/** The models for a prompt, in order: the one it names, then its preferences, else the default. Pure. */
import type { ProviderModels } from "../opencode/client/types.ts"
import { fullModelName, parseModel } from "../opencode/config/models.ts"

interface RequestedModels {
  readonly model?: string | undefined
  readonly modelPreferences?: readonly string[] | undefined
}

export interface AgentModels {
  readonly defaultModel: string | undefined
  /** The providers that OpenCode is connected to. */
  readonly models?: readonly ProviderModels[]
}

/** Throws when the named model has no valid name, instead of silently using another one. */
export const modelChain = (
  { model, modelPreferences = [] }: RequestedModels,
  { defaultModel, models = [] }: AgentModels,
): readonly string[] => {
  const requested = [
    ...(model === undefined ? [] : [fullModelName(model, models)]),
    ...modelPreferences.filter((name) => parseModel(name)),
  ]
  if (requested.length > 0) return [...new Set(requested)]
  return defaultModel === undefined ? [] : [defaultModel]
}
