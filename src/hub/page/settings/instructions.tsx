/** Instructions that the agent reads with every prompt. */
import { useState } from "preact/hooks"
import { Button } from "../ui/button.tsx"
import { words } from "../words.ts"
import { changeConfig, config } from "./config.ts"

export const Instructions = () => {
  const stored = (config.value.instructions ?? []).join("\n\n")
  const [text, setText] = useState(stored)
  const [note, setNote] = useState("")
  const save = async () => {
    setNote(words.saving)
    const refused = await changeConfig({
      config: { instructions: text.trim() === "" ? [] : [text.trim()] },
    })
    setNote(refused === undefined ? words.saved : words.keyRefused(refused))
  }
  return (
    <form
      class="setting-page"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <textarea
        rows={12}
        aria-label={words.instructionsLabel}
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value)
          setNote("")
        }}
      />
      <div class="setting-in">
        <Button type="submit" kind="primary" disabled={text === stored}>
          {words.save}
        </Button>
        <span role="status">{note}</span>
      </div>
    </form>
  )
}
