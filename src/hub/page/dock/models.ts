/** The models that the runner offers, as the picker shows them. */
import { computed } from "@preact/signals"
import { stateOf } from "../client/slices.ts"

export interface ModelRow {
  /** `provider/model`, as a prompt names it. */
  readonly id: string
  readonly name: string
  readonly provider: string
  readonly context?: number
}

interface Provider {
  readonly provider: string
  readonly models: readonly {
    readonly id: string
    readonly name: string
    readonly context?: number
  }[]
}

const isProvider = (value: unknown): value is Provider =>
  typeof value === "object" && value !== null && Array.isArray((value as Provider).models)

const offered = stateOf("models")
const chosen = stateOf("model")

export const models = computed((): readonly ModelRow[] => {
  const state = offered.value
  if (!Array.isArray(state)) return []
  return state.filter(isProvider).flatMap(({ provider, models: rows }) =>
    rows.map(({ id, name, context }) => ({
      id: id.includes("/") ? id : `${provider}/${id}`,
      name,
      provider,
      ...(context !== undefined && { context }),
    })),
  )
})

/** The name that people know; the last segment of the id when the runner does not offer the model. */
export const modelName = (id: string): string =>
  models.value.find((model) => model.id === id || model.id.endsWith(`/${id}`))?.name ??
  id.slice(id.lastIndexOf("/") + 1)

export const defaultModel = computed((): string | undefined => {
  const state = chosen.value as { readonly default?: unknown } | undefined
  return typeof state?.default === "string" ? state.default : models.value[0]?.id
})

export const isDemo = computed(
  () => models.value.length > 0 && models.value.every(({ id }) => /demo/i.test(id)),
)
