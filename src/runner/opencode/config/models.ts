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

/**
 * `provider/model` for what a person typed. A provider is not necessary if one provider alone has a model of that name.
 * Throws a text with the possible names if it is not clear which model is meant.
 */
export const fullModelName = (name: string, known: readonly ProviderModels[]): string => {
  if (known.some(({ provider }) => name.startsWith(`${provider}/`))) return name
  const owners = known.filter(({ models }) => models.some(({ id }) => id === name))
  const [owner, ...others] = owners
  if (owner && others.length === 0) return `${owner.provider}/${name}`
  if (owners.length > 1)
    throw new Error(
      `the model "${name}" exists at several providers: name one of ${owners.map(({ provider }) => `${provider}/${name}`).join(", ")}`,
    )
  if (parseModel(name)) return name
  const examples = known.flatMap(({ provider, models }) =>
    models.map(({ id }) => `${provider}/${id}`),
  )
  throw new Error(
    `"${name}" is not a known model: expected provider/model${examples.length === 0 ? "" : `, such as ${examples.slice(0, 5).join(", ")}`}`,
  )
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
