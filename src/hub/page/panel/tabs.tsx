/** The tabs of the panel. Arrow keys move between them. */
import { MAIN_PANELS, PANELS, type PanelName } from "../routes.ts"
import { Menu } from "../ui/menu.tsx"
import { words } from "../words.ts"

export interface TabsProps {
  readonly current: PanelName
  readonly counts: Partial<Record<PanelName, number>>
  readonly onChoose: (name: PanelName) => void
}

export const Tabs = ({ current, counts, onChoose }: TabsProps) => {
  // A panel of the menu has a tab while it is open.
  const shown = PANELS.filter((name) => MAIN_PANELS.includes(name) || name === current)
  const others = PANELS.filter((name) => !shown.includes(name))
  const onKey = (event: KeyboardEvent) => {
    const at = shown.indexOf(current)
    const places: Readonly<Record<string, number>> = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      Home: 0,
      End: shown.length - 1,
    }
    const place = places[event.key]
    const next = place === undefined ? undefined : shown.at(place % shown.length)
    if (!next) return
    event.preventDefault()
    onChoose(next)
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`#tab-${next}`)?.focus())
  }
  return (
    <>
      <div class="tabs" role="tablist" aria-label={words.panel} onKeyDown={onKey}>
        {shown.map((name) => (
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
      <Menu
        label={words.morePanels}
        items={others.map((name) => [words.tabs[name], () => onChoose(name)] as const)}
      />
    </>
  )
}
