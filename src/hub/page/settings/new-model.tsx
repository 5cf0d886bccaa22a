/** The model of prompts that name none, for all sessions of the person. */
import { useState } from "preact/hooks"
import { setDefaultModel } from "../client/api.ts"
import { ownerModel, refreshSessions } from "../client/store.ts"
import { modelName, models } from "../dock/models.ts"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"

export const NewModel = () => {
  const [note, setNote] = useState("")
  const chosen = ownerModel.value ?? ""
  const offered = models.value.map(({ id }) => id)
  const choose = async (id: string) => {
    setNote(words.saving)
    const refused = await setDefaultModel(id === "" ? null : id)
    await refreshSessions()
    setNote(refused === undefined ? words.saved : words.keyRefused(refused))
  }
  return (
    <div class="setting">
      <div>
        <b>{words.newModel}</b>
        <small>{words.newModelText}</small>
      </div>
      <div class="setting-in">
        <span role="status">{note}</span>
        <select
          class="setting-choice"
          aria-label={words.newModel}
          value={chosen}
          onChange={({ currentTarget }) => void choose(currentTarget.value)}
        >
          <option value="">{words.newModelNone}</option>
          {[...new Set([...(chosen === "" ? [] : [chosen]), ...offered])].map((id) => (
            <option key={id} value={id}>
              {visible(modelName(id))}
            </option>
          ))}
        </select>
      </div>
    </div>
  )
}
