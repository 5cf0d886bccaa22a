/** Search and commands: conversations by title, messages by their text, and what the page can do. */
import { useEffect, useState } from "preact/hooks"
import { layer, openSettings, toggleSide } from "../client/layout.ts"
import { go, showPanel } from "../client/navigation.ts"
import { openNewConversation, request, session, view } from "../client/store.ts"
import { pathOf } from "../routes.ts"
import { clockTime } from "../ui/clock.ts"
import { Icon, type IconName } from "../ui/icon.tsx"
import { modKey } from "../ui/keys.ts"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { Layer } from "./layer.tsx"

interface Hit {
  readonly messageId: string
  readonly role: string
  readonly channel: string
  readonly at: number
  readonly text: string
  readonly marks?: readonly (readonly [number, number])[]
}

interface Item {
  readonly key: string
  readonly group: string
  readonly icon: IconName
  readonly text: string
  readonly marks?: readonly (readonly [number, number])[]
  readonly meta?: string
  readonly act: () => void
}

const PAUSE_MS = 250
const MIN_QUERY = 2

const commands: readonly Item[] = [
  {
    key: "new",
    group: words.commands,
    icon: "plus",
    text: words.newConversation,
    meta: modKey("⇧O"),
    act: openNewConversation,
  },
  ...(
    ["changes", "terminal", "preview", "editor", "review", "images", "tasks", "memories"] as const
  ).map((name): Item => ({
    key: name,
    group: words.commands,
    icon: "panel",
    text: words.tabs[name],
    act: () => showPanel(name),
  })),
  {
    key: "side",
    group: words.commands,
    icon: "side",
    text: words.conversations,
    meta: modKey("B"),
    act: toggleSide,
  },
  {
    key: "settings",
    group: words.commands,
    icon: "settings",
    text: words.settings,
    meta: modKey(","),
    act: () => openSettings("models"),
  },
]

/** Messages that say the query. The hub searches all of them, also those that are not on the page. */
const useHits = (query: string): { readonly hits: readonly Hit[]; readonly state: string } => {
  const [hits, setHits] = useState<readonly Hit[]>([])
  const [state, setState] = useState<"idle" | "busy" | "done" | "failed">("idle")
  useEffect(() => {
    if (query.length < MIN_QUERY) {
      setHits([])
      return setState("idle")
    }
    let isCurrent = true
    setState("busy")
    const timer = setTimeout(async () => {
      const reply = await request({ type: "search", query, limit: 20 })
      if (!isCurrent) return
      setState(reply.ok ? "done" : "failed")
      setHits(reply.ok && Array.isArray(reply["hits"]) ? (reply["hits"] as readonly Hit[]) : [])
    }, PAUSE_MS)
    return () => {
      isCurrent = false
      clearTimeout(timer)
    }
  }, [query])
  return { hits, state }
}

const Marked = ({ text, marks = [] }: Pick<Item, "text" | "marks">) => {
  let at = 0
  return (
    <span class="palette-text">
      {marks.map(([start, end]) => {
        const before = text.slice(at, start)
        at = end
        return (
          <>
            {visible(before)}
            <mark>{visible(text.slice(start, end))}</mark>
          </>
        )
      })}
      {visible(text.slice(at))}
    </span>
  )
}

const marksOf = (text: string, query: string): readonly (readonly [number, number])[] => {
  const at = query === "" ? -1 : text.toLowerCase().indexOf(query)
  return at === -1 ? [] : [[at, at + query.length]]
}

export const Palette = () => {
  const [text, setText] = useState("")
  const [at, setAt] = useState(0)
  const query = text.trim().toLowerCase()
  const { hits, state } = useHits(query)
  const close = () => (layer.value = undefined)
  const conversations = view.value.channels
    .map(({ key, title, lastText, updatedAt }) => ({
      key,
      name: title ?? lastText ?? words.newConversation,
      updatedAt,
    }))
    .filter(({ name }) => name.toLowerCase().includes(query))
    .toSorted((a, b) => b.updatedAt - a.updatedAt)
    .slice(0, 6)
    .map(({ key, name, updatedAt }): Item => ({
      key: `c/${key}`,
      group: words.conversations,
      icon: "bot",
      text: name,
      marks: marksOf(name, query),
      meta: clockTime(updatedAt),
      act: () => go(pathOf({ session: session.value, channel: key })),
    }))
  const messages = hits.map((hit): Item => ({
    key: `m/${hit.messageId}`,
    group: words.messages,
    icon: hit.role === "user" ? "asks" : "bot",
    text: hit.text,
    ...(hit.marks && { marks: hit.marks }),
    meta: clockTime(hit.at),
    act: () => go(pathOf({ session: session.value, channel: hit.channel, message: hit.messageId })),
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
                  <Marked text={item.text} {...(item.marks && { marks: item.marks })} />
                  {item.meta && <span class="fold-meta">{item.meta}</span>}
                </div>
              ) : null,
            )}
          </div>
        ))}
      </div>
      {state === "failed" && <p class="palette-note">{words.searchFailed}</p>}
      {shown.length === 0 && state !== "busy" && (
        <p class="palette-note">{words.nothingSays(text)}</p>
      )}
    </Layer>
  )
}
