/** The tabs of the panel. Arrow keys move between them. */
import { PANELS, type PanelName } from "../routes.ts"
import { words } from "../words.ts"

export interface TabsProps {
  readonly current: PanelName
  readonly counts: Partial<Record<PanelName, number>>
  readonly onChoose: (name: PanelName) => void
}

export const Tabs = ({ current, counts, onChoose }: TabsProps) => {
  const onKey = (event: KeyboardEvent) => {
    const at = PANELS.indexOf(current)
    const places: Readonly<Record<string, number>> = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      Home: 0,
      End: PANELS.length - 1,
    }
    const place = places[event.key]
    const next = place === undefined ? undefined : PANELS.at(place % PANELS.length)
    if (!next) return
    event.preventDefault()
    onChoose(next)
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`#tab-${next}`)?.focus())
  }
  return (
    <div class="tabs" role="tablist" aria-label={words.panel} onKeyDown={onKey}>
      {PANELS.map((name) => (
        <button
          key={name}
          type="button"
          role="tab"
          id={`tab-${name}`}
          class="tab"
          aria-selected={name === current}
          aria-controls={name === current ? "tabpanel" : undefined}
          tabIndex={name === current ? 0 : -1}
          onClick={() => onChoose(name)}
        >
          {words.tabs[name]}
          {(counts[name] ?? 0) > 0 && <span class="count">{counts[name]}</span>}
        </button>
      ))}
    </div>
  )
}
