/** Endpoints that speak the API of OpenAI: the list of them, and the form that adds one or changes one. */
import { useState } from "preact/hooks"
import { models } from "../dock/models.ts"
import { Button } from "../ui/button.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { changeConfig, config, endpoints, withoutDemo } from "./config.ts"
import {
  EMPTY_FIELDS,
  type EndpointFields,
  fieldsOf,
  isComplete,
  patchOf,
  type ShownEndpoint,
} from "./endpoint-fields.ts"

/** The models of an endpoint, as the runner offers them. */
const namesOf = (provider: string): string => {
  const names = models.value
    .filter(({ id }) => id.startsWith(`${provider}/`))
    .map(({ id }) => id.slice(provider.length + 1))
  return names.length === 0 ? words.endpointNone : names.join(", ")
}

export const Endpoint = () => {
  const [fields, setFields] = useState(EMPTY_FIELDS)
  const [changed, setChanged] = useState<ShownEndpoint | undefined>(undefined)
  const [note, setNote] = useState("")
  const edit = (endpoint: ShownEndpoint | undefined) => {
    setChanged(endpoint)
    setFields(endpoint ? fieldsOf(endpoint) : EMPTY_FIELDS)
    setNote("")
  }
  const change = async (patch: ReturnType<typeof patchOf> | Record<string, null>) => {
    setNote(words.saving)
    const refused = await changeConfig({ patch: { customProviders: patch } })
    if (refused === undefined) edit(undefined)
    setNote(refused === undefined ? words.saved : words.keyRefused(refused))
  }
  const save = () => {
    const others = config.value.providers?.map(({ id }) => id) ?? []
    void change({ ...withoutDemo(), ...patchOf(fields, changed, others) })
  }
  const field = (
    name: keyof EndpointFields,
    label: string,
    { type, placeholder = "" }: { type?: "password"; placeholder?: string } = {},
  ) => (
    <label class="setting-field">
      <span>{label}</span>
      <input
        {...(type && { type })}
        autocomplete="off"
        placeholder={placeholder}
        value={fields[name]}
        onInput={({ currentTarget }) => setFields({ ...fields, [name]: currentTarget.value })}
      />
    </label>
  )
  const isReady = isComplete(fields, changed)
  return (
    <form
      class="setting is-tall"
      onSubmit={(event) => {
        event.preventDefault()
        if (isReady) save()
      }}
    >
      <div>
        <b>{words.endpoint}</b>
        <small>{words.endpointText}</small>
      </div>
      <div class="setting-fields">
        {endpoints.value.map((endpoint) => (
          <p key={endpoint.id} class="setting-endpoint">
            <b>{visible(endpoint.name)}</b>
            <IconButton
              icon="pencil"
              label={words.endpointChange(visible(endpoint.name))}
              onClick={() => edit(endpoint)}
            />
            <IconButton
              icon="trash"
              label={words.endpointRemove(visible(endpoint.name))}
              onClick={() => void change({ [endpoint.id]: null })}
            />
            <span>{visible(namesOf(endpoint.id))}</span>
          </p>
        ))}
        {field("name", words.endpointName)}
        {field("url", words.endpointUrl, {
          placeholder: changed ? words.endpointUrlKept(visible(changed.host ?? "")) : "",
        })}
        {field("key", words.endpointKey, {
          type: "password",
          placeholder: changed?.hasKey === true ? words.endpointKeyKept : "",
        })}
        {field("models", words.endpointModels)}
        <div class="setting-in">
          <Button type="submit" disabled={!isReady}>
            {changed ? words.endpointSave : words.endpointAdd}
          </Button>
          {changed && (
            <Button kind="ghost" onClick={() => edit(undefined)}>
              {words.cancel}
            </Button>
          )}
          <span role="status">{note}</span>
        </div>
      </div>
    </form>
  )
}
