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

/** Without a model OpenCode would use one of its own choice, or the one that only warms it up. */
export const existingModel = (defaultModel: string | undefined): string => {
  if (defaultModel !== undefined) return defaultModel
  throw new Error(
    "no model is configured: set a provider key such as ANTHROPIC_API_KEY, or OPENAI_BASE_URL, and restart; or send a config with a provider",
  )
}

/** Throws when there is no model, or when the named one has no valid name, instead of silently using another one. */
export const modelChain = (
  { model, modelPreferences = [] }: RequestedModels,
  { defaultModel, models = [] }: AgentModels,
): readonly string[] => {
  const requested = [
    ...(model === undefined ? [] : [fullModelName(model, models)]),
    ...modelPreferences.filter((name) => parseModel(name)),
  ]
  if (requested.length > 0) return [...new Set(requested)]
  return [existingModel(defaultModel)]
}
