/** The model of the next prompts: a field to search, and a list by provider. */
import { useEffect, useRef, useState } from "preact/hooks"
import { openSettings } from "../client/layout.ts"
import { compactNumber } from "../ui/clock.ts"
import { Icon } from "../ui/icon.tsx"
import { useDismiss } from "../ui/use-dismiss.ts"
import { words } from "../words.ts"
import { defaultModel, modelName, models } from "./models.ts"
import { PickerFallbacks } from "./picker-fallbacks.tsx"

export interface ModelPickerProps {
  readonly chosen: string | undefined
  readonly onChoose: (id: string) => void
}

export const ModelPicker = ({ chosen, onChoose }: ModelPickerProps) => {
  const [isOpen, setOpen] = useState(false)
  const ref = useRef<HTMLDivElement>(null)
  useDismiss(ref, isOpen, () => setOpen(false))
  const current = chosen ?? defaultModel.value
  return (
    <div class="picker" ref={ref}>
      <button
        type="button"
        class="picker-button"
        aria-haspopup="listbox"
        aria-expanded={isOpen}
        aria-label={`${words.model}: ${current === undefined ? words.defaultModel : modelName(current)}`}
        onClick={() => setOpen(!isOpen)}
      >
        <span>{current === undefined ? words.defaultModel : modelName(current)}</span>
        <Icon name="open" size={13} />
      </button>
      {isOpen && (
        <List
          current={current}
          onChoose={(id) => {
            setOpen(false)
            onChoose(id)
          }}
        />
      )}
    </div>
  )
}

const List = ({
  current,
  onChoose,
}: {
  readonly current: string | undefined
  readonly onChoose: (id: string) => void
}) => {
  const [query, setQuery] = useState("")
  const [at, setAt] = useState(0)
  const field = useRef<HTMLInputElement>(null)
  // Once: a later change of the list must not take the focus from the choices below it.
  useEffect(() => field.current?.focus(), [])
  const found = models.value.filter(({ id, name }) =>
    `${name} ${id}`.toLowerCase().includes(query.toLowerCase()),
  )
  const providers = [...new Set(found.map(({ provider }) => provider))]
  const ordered = providers.flatMap((provider) => found.filter((one) => one.provider === provider))
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(ordered.length - 1, at + 1))
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1))
    else if (event.key === "Enter" && ordered[at]) onChoose(ordered[at].id)
    else return
    event.preventDefault()
  }
  return (
    <div class="picker-list">
      <div class="picker-search">
        <Icon name="search" size={15} />
        <input
          ref={field}
          type="text"
          role="combobox"
          aria-label={words.searchModels}
          aria-expanded="true"
          aria-controls="models"
          aria-activedescendant={ordered[at] ? `model-${at}` : undefined}
          placeholder={words.searchModels}
          value={query}
          onInput={({ currentTarget }) => {
            setQuery(currentTarget.value)
            setAt(0)
          }}
          onKeyDown={onKey}
        />
      </div>
      <div role="listbox" id="models" aria-label={words.model}>
        {providers.map((provider) => (
          <div key={provider} role="group" aria-label={provider}>
            <div class="picker-group" aria-hidden="true">
              {provider}
            </div>
            {ordered.map((model, index) =>
              model.provider === provider ? (
                <div
                  key={model.id}
                  id={`model-${index}`}
                  role="option"
                  class={`picker-row ${index === at ? "is-current" : ""}`}
                  aria-selected={model.id === current}
                  onClick={() => onChoose(model.id)}
                >
                  <span class="picker-check">
                    {model.id === current && <Icon name="check" size={14} />}
                  </span>
                  <span class="picker-name">{model.name}</span>
                  {model.context !== undefined && (
                    <span class="fold-meta">{words.context(compactNumber(model.context))}</span>
                  )}
                </div>
              ) : null,
            )}
          </div>
        ))}
      </div>
      {ordered.length === 0 && (
        <p class="picker-none">{query === "" ? words.noModels : words.noModelFound(query)}</p>
      )}
      <PickerFallbacks current={current} />
      <div class="picker-foot">
        <button type="button" class="link" onClick={() => openSettings("models")}>
          {words.addKey}
        </button>
      </div>
    </div>
  )
}
