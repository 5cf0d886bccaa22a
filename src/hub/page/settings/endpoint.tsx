/** An endpoint that speaks the API of OpenAI: its address, its key if it needs one, and its models. */
import { useState } from "preact/hooks"
import { models } from "../dock/models.ts"
import { Button } from "../ui/button.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { changeConfig, endpoints } from "./config.ts"

const idOf = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")

/** The models of an endpoint, as the runner offers them. */
const namesOf = (provider: string): string => {
  const names = models.value
    .filter(({ id }) => id.startsWith(`${provider}/`))
    .map(({ id }) => id.slice(provider.length + 1))
  return names.length === 0 ? words.endpointNone : names.join(", ")
}

interface Fields {
  readonly name: string
  readonly url: string
  readonly key: string
  readonly models: string
}

const EMPTY: Fields = { name: "", url: "", key: "", models: "" }

export const Endpoint = () => {
  const [fields, setFields] = useState(EMPTY)
  const [note, setNote] = useState("")
  const field = (name: keyof Fields, label: string, type: "text" | "password") => (
    <label class="setting-field">
      <span>{label}</span>
      <input
        {...(type === "password" ? { type } : {})}
        autocomplete="off"
        value={fields[name]}
        onInput={({ currentTarget }) => setFields({ ...fields, [name]: currentTarget.value })}
      />
    </label>
  )
  const named = fields.models
    .split(",")
    .map((id) => id.trim())
    .filter((id) => id !== "")
  const isComplete = idOf(fields.name) !== "" && /^https?:\/\/.+/.test(fields.url)
  const add = async () => {
    setNote(words.saving)
    const refused = await changeConfig({
      customProviders: [
        {
          providerId: idOf(fields.name),
          displayName: fields.name,
          baseUrl: fields.url,
          ...(fields.key !== "" && { apiKey: fields.key }),
          models: named.map((id) => ({ id })),
        },
      ],
    })
    setNote(refused === undefined ? words.saved : words.keyRefused(refused))
    if (refused === undefined) setFields(EMPTY)
  }
  return (
    <form
      class="setting is-tall"
      onSubmit={(event) => {
        event.preventDefault()
        if (isComplete) void add()
      }}
    >
      <div>
        <b>{words.endpoint}</b>
        <small>{words.endpointText}</small>
      </div>
      <div class="setting-fields">
        {endpoints.value.map(({ id, name }) => (
          <p key={id} class="setting-endpoint">
            <b>{visible(name)}</b>
            <span>{visible(namesOf(id))}</span>
          </p>
        ))}
        {field("name", words.endpointName, "text")}
        {field("url", words.endpointUrl, "text")}
        {field("key", words.endpointKey, "password")}
        {field("models", words.endpointModels, "text")}
        <div class="setting-in">
          <Button type="submit" disabled={!isComplete}>
            {words.endpointAdd}
          </Button>
          <span role="status">{note}</span>
        </div>
      </div>
    </form>
  )
}
