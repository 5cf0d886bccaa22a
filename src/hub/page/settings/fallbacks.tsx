/** The models that a prompt goes on with when its model fails. */
import { useState } from "preact/hooks"
import { view } from "../client/store.ts"
import { models } from "../dock/models.ts"
import { Button } from "../ui/button.tsx"
import { words } from "../words.ts"
import { changeConfig } from "./config.ts"

const MODELS_LIST = "fallback-models"

export const Fallbacks = () => {
  const state = view.value.state["model"] as { readonly fallbacks?: readonly string[] } | undefined
  const stored = (state?.fallbacks ?? []).join(", ")
  const [text, setText] = useState(stored)
  const [note, setNote] = useState("")
  const save = async () => {
    const names = text.split(",").map((name) => name.trim())
    setNote(words.saving)
    const refused = await changeConfig({
      config: { modelFallbacks: names.filter((name) => name !== "") },
    })
    setNote(refused === undefined ? words.saved : words.keyRefused(refused))
  }
  return (
    <form
      class="setting is-tall"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <div>
        <b>{words.fallbacks}</b>
        <small>{words.fallbacksText}</small>
      </div>
      <div class="setting-fields">
        <label class="setting-field">
          <span>{words.fallbacksLabel}</span>
          <input
            list={MODELS_LIST}
            autocomplete="off"
            value={text}
            onInput={({ currentTarget }) => {
              setText(currentTarget.value)
              setNote("")
            }}
          />
          <datalist id={MODELS_LIST}>
            {models.value.map(({ id }) => (
              <option key={id} value={id} />
            ))}
          </datalist>
        </label>
        <div class="setting-in">
          <Button type="submit" disabled={text === stored}>
            {words.save}
          </Button>
          <span role="status">{note}</span>
        </div>
      </div>
    </form>
  )
}
