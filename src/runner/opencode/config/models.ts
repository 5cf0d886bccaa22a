/** Model names: `provider/model` on the wire, two fields in OpenCode's API. Pure. */
import type { ProviderModels } from "../client/types.ts"

export interface ModelRef {
  readonly providerID: string
  readonly modelID: string
}

/** Splits at the first slash, because model ids may have slashes. Undefined without a provider. */
export const parseModel = (name: string): ModelRef | undefined => {
  const slash = name.indexOf("/")
  if (slash <= 0 || slash === name.length - 1) return undefined
  return { providerID: name.slice(0, slash), modelID: name.slice(slash + 1) }
}

/** The model for prompts that name none; explicit, because OpenCode's own choice is not predictable. */
export const defaultModel = (
  known: readonly ProviderModels[],
  preferred: string | undefined,
): string | undefined => {
  if (preferred !== undefined) return preferred
  const provider = known.find(({ models }) => models.length > 0)
  const model = provider?.models[0]
  return provider && model ? `${provider.provider}/${model.id}` : undefined
}

/** The model that OpenCode's config names (the project's, or ours for an endpoint), if a connected provider has it. */
export const knownModel = (
  known: readonly ProviderModels[],
  configured: string | undefined,
): string | undefined => {
  const ref = parseModel(configured ?? "")
  const provider = known.find((one) => one.provider === ref?.providerID)
  return provider?.models.some(({ id }) => id === ref?.modelID) ? configured : undefined
}
