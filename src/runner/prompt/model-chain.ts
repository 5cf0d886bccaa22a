/** The models for a prompt, in order: the one it names, then its preferences, else the default. Pure. */
import { parseModel } from "../opencode/config/models.ts"

interface RequestedModels {
  readonly model?: string | undefined
  readonly modelPreferences?: readonly string[] | undefined
}

/** Throws when the named model has no valid name, instead of silently using another one. */
export const modelChain = (
  { model, modelPreferences = [] }: RequestedModels,
  defaultModel: string | undefined,
): readonly string[] => {
  if (model !== undefined && !parseModel(model)) {
    throw new Error(`"${model}" is not a valid model name: expected provider/model`)
  }
  const requested = [model, ...modelPreferences].flatMap((name) =>
    name !== undefined && parseModel(name) ? [name] : [],
  )
  if (requested.length > 0) return [...new Set(requested)]
  return defaultModel === undefined ? [] : [defaultModel]
}
