/** In the model picker: what a prompt goes on with when its model fails, in order. It is saved for the session. */
import { useState } from "preact/hooks"
import { stateOf } from "../client/slices.ts"
import { mayUse } from "../client/store.ts"
import { changeConfig } from "../settings/config.ts"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { fallbackChoices, withFallback } from "./fallback-list.ts"
import { modelName, models } from "./models.ts"

const chosen = stateOf("model")
const storedFallbacks = (): readonly string[] => {
  const state = chosen.value as { readonly fallbacks?: unknown } | undefined
  return Array.isArray(state?.fallbacks) ? (state.fallbacks as readonly string[]) : []
}

export const PickerFallbacks = ({ current }: { readonly current: string | undefined }) => {
  const [problem, setProblem] = useState("")
  const list = storedFallbacks()
  const choices = fallbackChoices(
    list,
    models.value.map(({ id }) => id),
    current,
  )
  if (!mayUse("config") || choices.length === 0) return null
  const choose = async (at: number, id: string) => {
    const modelFallbacks = [...withFallback(list, at, id)]
    setProblem((await changeConfig({ config: { modelFallbacks } })) ?? "")
  }
  return (
    <div class="picker-fallbacks">
      {choices.map(({ id, offered }, at) => (
        <label key={at}>
          <span>{at === 0 ? words.ifItFails : words.thenWith}</span>
          <select
            aria-label={words.fallbackAt(at + 1)}
            value={id}
            onChange={({ currentTarget }) => void choose(at, currentTarget.value)}
          >
            <option value="">{words.noFallback}</option>
            {offered.map((one) => (
              <option key={one} value={one}>
                {visible(modelName(one))}
              </option>
            ))}
          </select>
        </label>
      ))}
      {problem !== "" && (
        <p class="picker-none" role="alert">
          {words.keyRefused(problem)}
        </p>
      )}
    </div>
  )
}
