/** Search and commands: conversations by title, messages by their text, and what the page can do. */
import { useState } from "preact/hooks"
import { layer, openSettings, searchText, toggleSide } from "../client/layout.ts"
import { go, showPanel } from "../client/navigation.ts"
import { openNewConversation } from "../client/store.ts"
import { type PanelName, PANELS, pathOf } from "../routes.ts"
import { age } from "../ui/clock.ts"
import { Icon, type IconName } from "../ui/icon.tsx"
import { modKey } from "../ui/keys.ts"
import { Spinner } from "../ui/spinner.tsx"
import { words } from "../words.ts"
import { conversationGroups } from "./conversation-groups.ts"
import { Layer } from "./layer.tsx"
import { Marked } from "./marked.tsx"
import { useHits } from "./use-hits.ts"

const MAX_CONVERSATIONS = 6

interface Item {
  readonly key: string
  readonly group: string
  readonly icon: IconName
  readonly text: string
  readonly marks?: readonly (readonly [number, number])[]
  readonly meta?: string
  /** The shortcut that does the same. */
  readonly keys?: string
  readonly act: () => void
}

const panelIcons: Readonly<Record<PanelName, IconName>> = {
  changes: "branch",
  terminal: "terminal",
  preview: "globe",
  desktop: "screen",
  editor: "file",
  review: "eye",
  images: "image",
  tasks: "plan",
  memories: "book",
}
const panelKeys: Partial<Readonly<Record<PanelName, string>>> = {
  changes: modKey("⇧D"),
  terminal: "Ctrl `",
  preview: modKey("⇧P"),
  editor: modKey("⇧E"),
}

const commands: readonly Item[] = [
  {
    key: "new",
    group: words.commands,
    icon: "plus",
    text: words.newConversation,
    keys: modKey("⇧O"),
    act: openNewConversation,
  },
  ...PANELS.map((name): Item => ({
    key: name,
    group: words.commands,
    icon: panelIcons[name],
    text: words.tabs[name],
    ...(panelKeys[name] && { keys: panelKeys[name] }),
    act: () => showPanel(name),
  })),
  {
    key: "side",
    group: words.commands,
    icon: "side",
    text: words.conversations,
    keys: modKey("B"),
    act: toggleSide,
  },
  {
    key: "settings",
    group: words.commands,
    icon: "settings",
    text: words.settings,
    keys: modKey(","),
    act: () => openSettings("models"),
  },
]

const marksOf = (text: string, query: string): readonly (readonly [number, number])[] => {
  const at = query === "" ? -1 : text.toLowerCase().indexOf(query)
  return at === -1 ? [] : [[at, at + query.length]]
}

export const Palette = () => {
  const [text, setText] = useState(searchText.peek())
  const [at, setAt] = useState(0)
  const query = text.trim().toLowerCase()
  const { hits, state, retry } = useHits(query)
  const close = () => {
    searchText.value = ""
    layer.value = undefined
  }
  const conversations = conversationGroups.value
    .flatMap(({ rows }) => rows)
    .filter(({ title }) => title.toLowerCase().includes(query))
    .slice(0, MAX_CONVERSATIONS)
    .map((row): Item => ({
      key: `c/${row.session}/${row.channel}`,
      group: words.conversations,
      icon: "bot",
      text: row.title,
      marks: marksOf(row.title, query),
      ...(row.updatedAt > 0 && { meta: age(row.updatedAt, Date.now()) }),
      act: () => go(pathOf(row)),
    }))
  const messages = hits.map((hit): Item => ({
    key: `m/${hit.session}/${hit.messageId}`,
    group: words.messages,
    icon: hit.role === "user" ? "asks" : "bot",
    text: hit.text,
    marks: hit.marks,
    meta: age(hit.at, Date.now()),
    act: () => go(pathOf({ session: hit.session, channel: hit.channel, message: hit.messageId })),
  }))
  const shown = [
    ...conversations,
    ...messages,
    ...commands.filter((one) => one.text.toLowerCase().includes(query)),
  ]
  const current = Math.min(at, shown.length - 1)
  const run = (item: Item | undefined) => {
    if (!item) return
    close()
    item.act()
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === "ArrowDown") setAt(Math.min(shown.length - 1, current + 1))
    else if (event.key === "ArrowUp") setAt(Math.max(0, current - 1))
    else if (event.key === "Enter") run(shown[current])
    else return
    event.preventDefault()
  }
  const groups = [...new Set(shown.map(({ group }) => group))]
  return (
    <Layer label={words.searchAll} class="palette" onClose={close}>
      <div class="palette-field">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label={words.searchAll}
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={shown[current] ? `palette-${current}` : undefined}
          placeholder={words.searchAll}
          value={text}
          onInput={({ currentTarget }) => {
            setText(currentTarget.value)
            setAt(0)
          }}
          onKeyDown={onKey}
        />
        <kbd>Esc</kbd>
      </div>
      <div class="palette-list" role="listbox" id="palette-list" aria-label={words.search}>
        {groups.map((group) => (
          <div key={group} role="group" aria-label={group}>
            <div class="picker-group" aria-hidden="true">
              {group}
            </div>
            {shown.map((item, index) =>
              item.group === group ? (
                <div
                  key={item.key}
                  id={`palette-${index}`}
                  role="option"
                  aria-selected={index === current}
                  class={`palette-row ${index === current ? "is-current" : ""}`}
                  onPointerMove={() => setAt(index)}
                  onClick={() => run(item)}
                >
                  <Icon name={item.icon} />
                  <span class="palette-text">
                    <Marked text={item.text} marks={item.marks} />
                  </span>
                  {item.meta && <span class="fold-meta">{item.meta}</span>}
                  {item.keys && <kbd class="palette-keys not-phone">{item.keys}</kbd>}
                </div>
              ) : null,
            )}
          </div>
        ))}
      </div>
      <p class="palette-note" role="status">
        {state === "failed" ? (
          <>
            {words.searchFailed}{" "}
            <button type="button" class="link" onClick={retry}>
              {words.tryAgain}
            </button>
          </>
        ) : state === "busy" ? (
          <>
            <Spinner size={12} /> {words.searching}
          </>
        ) : shown.length === 0 ? (
          words.nothingSays(text)
        ) : null}
      </p>
    </Layer>
  )
}
