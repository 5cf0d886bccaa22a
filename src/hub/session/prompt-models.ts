/** The models that a prompt goes on with when its model fails. The runner changes the model before any tool has run. */
import { z } from "zod"
import type { NamedValues } from "./named-values.ts"
import type { Prompt } from "./queue.ts"

const modelState = z.object({ default: z.string() })

/** The state `model` of clients: the default of the runner, and the fallbacks of the config. */
export const publishModel = (values: NamedValues, name: string | undefined): void => {
  const known = modelState.safeParse(values.getPublic("model")).data?.default
  const fallbacks = values.config().modelFallbacks ?? []
  const current = name ?? known
  if (current === undefined && fallbacks.length === 0) return
  values.setPublic("model", {
    ...(current !== undefined && { default: current }),
    ...(fallbacks.length > 0 && { fallbacks }),
  })
}

/** A prompt that names its own preferences keeps them. */
export const withFallbacks = (values: NamedValues, prompt: Prompt): Prompt => {
  const fallbacks = values.config().modelFallbacks ?? []
  if (prompt.modelPreferences !== undefined || fallbacks.length === 0) return prompt
  const model = prompt.model ?? modelState.safeParse(values.getPublic("model")).data?.default
  // Without a known first model the fallback would become the first one.
  if (model === undefined) return prompt
  return { ...prompt, model, modelPreferences: fallbacks.filter((name) => name !== model) }
}
