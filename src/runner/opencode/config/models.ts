/** Model names: `provider/model` as the wire has them, apart as OpenCode wants them. Pure. */
import type { ProviderModels } from "../client/types.ts"

export interface ModelRef {
  readonly providerID: string
  readonly modelID: string
}

/** A name without a provider is not a model; the first slash divides, since model ids hold slashes too. */
export const parseModel = (name: string): ModelRef | undefined => {
  const slash = name.indexOf("/")
  if (slash <= 0 || slash === name.length - 1) return undefined
  return { providerID: name.slice(0, slash), modelID: name.slice(slash + 1) }
}

/** What a prompt is sent with when nobody chose: OpenCode's own choice would be a surprise. */
export const defaultModel = (
  known: readonly ProviderModels[],
  preferred: string | undefined,
): string | undefined => {
  if (preferred !== undefined) return preferred
  const provider = known.find(({ models }) => models.length > 0)
  const model = provider?.models[0]
  return provider && model ? `${provider.provider}/${model.id}` : undefined
}
