/** Which models a prompt is tried with, in order: the one it names, then the preferences; always an explicit one. Pure. */
import { parseModel } from "../opencode/config/models.ts"

interface Wishes {
  readonly model?: string | undefined
  readonly modelPreferences?: readonly string[] | undefined
}

/** A model that is asked for by name must be one: another in its place would be a surprise. */
export const modelChain = (
  { model, modelPreferences = [] }: Wishes,
  defaultModel: string | undefined,
): readonly string[] => {
  if (model !== undefined && !parseModel(model)) {
    throw new Error(`"${model}" is not a model: expected provider/model`)
  }
  const wished = [model, ...modelPreferences].flatMap((name) =>
    name !== undefined && parseModel(name) ? [name] : [],
  )
  if (wished.length > 0) return [...new Set(wished)]
  return defaultModel === undefined ? [] : [defaultModel]
}
