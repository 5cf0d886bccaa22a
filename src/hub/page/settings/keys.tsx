/** Provider keys, which are written and never shown, and endpoints of one's own. */
import { useState } from "preact/hooks"
import { logOutEverywhere } from "../client/login.ts"
import { maySetModel, mayUse } from "../client/store.ts"
import { Button } from "../ui/button.tsx"
import { Icon } from "../ui/icon.tsx"
import { words } from "../words.ts"
import { changeConfig, config } from "./config.ts"
import { Endpoint } from "./endpoint.tsx"
import { Fallbacks } from "./fallbacks.tsx"
import { NewModel } from "./new-model.tsx"

const PROVIDERS = [
  { id: "anthropic", name: "Anthropic", variable: "ANTHROPIC_API_KEY" },
  { id: "openai", name: "OpenAI", variable: "OPENAI_API_KEY" },
  { id: "openrouter", name: "OpenRouter", variable: "OPENROUTER_API_KEY" },
  { id: "google", name: "Google", variable: "GEMINI_API_KEY" },
] as const

const KeyRow = ({ id, name, variable }: (typeof PROVIDERS)[number]) => {
  const isSet = config.value.keys?.[id] === true
  const [key, setKey] = useState("")
  const [isReplacing, setReplacing] = useState(false)
  const [state, setState] = useState<"idle" | "saving" | "saved">("idle")
  const [problem, setProblem] = useState("")
  const save = async (value: string | null) => {
    setState("saving")
    const refused = await changeConfig({ patch: { providerKeys: { [id]: value } } })
    setState(refused === undefined ? "saved" : "idle")
    setProblem(refused ?? "")
    if (refused !== undefined) return
    setKey("")
    setReplacing(false)
  }
  const hasField = !isSet || isReplacing
  return (
    <form
      class="setting"
      onSubmit={(event) => {
        event.preventDefault()
        if (key.trim() !== "") void save(key.trim())
      }}
    >
      <div>
        <b>{name}</b>
        <small class="mono">{variable}</small>
        {problem !== "" && (
          <small class="setting-bad" role="alert">
            {words.keyRefused(problem)}
          </small>
        )}
      </div>
      <div class="setting-in">
        {isSet && (
          <span class="setting-ok">
            <Icon name="check" size={14} />
            {words.keySet}
          </span>
        )}
        {!isSet && state === "saved" && (
          <span class="setting-ok" role="status">
            <Icon name="check" size={14} />
            {words.saved}
          </span>
        )}
        {hasField ? (
          <>
            <input
              type="password"
              autocomplete="off"
              aria-label={words.keyOf(name)}
              placeholder={words.keyPaste}
              value={key}
              onInput={({ currentTarget }) => setKey(currentTarget.value)}
            />
            <Button type="submit" disabled={key.trim() === "" || state === "saving"}>
              {state === "saving" ? words.saving : words.save}
            </Button>
          </>
        ) : (
          <>
            <Button small onClick={() => setReplacing(true)}>
              {words.keyReplace}
            </Button>
            <Button small kind="bad" onClick={() => void save(null)}>
              {words.keyRemove}
            </Button>
          </>
        )}
      </div>
    </form>
  )
}

export const Keys = () => (
  <>
    {mayUse("config") && PROVIDERS.map((one) => <KeyRow key={one.id} {...one} />)}
    {mayUse("config") && <Endpoint />}
    {maySetModel.value && <NewModel />}
    {mayUse("config") && <Fallbacks />}
    <div class="setting">
      <div>
        <b>{words.logOut}</b>
        <small>{words.logOutText}</small>
      </div>
      <div class="setting-in">
        <Button small kind="bad" onClick={() => void logOutEverywhere()}>
          {words.logOut}
        </Button>
      </div>
    </div>
  </>
)
