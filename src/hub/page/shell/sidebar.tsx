/** The conversations of every session, by day, with a field that filters their titles. */
import { computed } from "@preact/signals"
import { useState } from "preact/hooks"
import { type ListedSession, sidebarGroups } from "../../view/sidebar-rows.ts"
import {
  hasSide,
  isDrawerOpen,
  isPhone,
  layer,
  openSettings,
  toggleSide,
} from "../client/layout.ts"
import { go, isPlainClick, route } from "../client/navigation.ts"
import {
  createProblem,
  newWorkspaces,
  openNewConversation,
  openSessionIn,
  seenRev,
  session,
  sessions,
} from "../client/store.ts"
import { channels, stateOf } from "../client/slices.ts"
import { pathOf } from "../routes.ts"
import { Icon } from "../ui/icon.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { modKey } from "../ui/keys.ts"
import { Mark } from "../ui/mark.tsx"
import { Menu } from "../ui/menu.tsx"
import { words } from "../words.ts"
import { ConnectionFoot } from "./connection-foot.tsx"
import { SessionRow } from "./session-row.tsx"

const sessionTitle = stateOf("title")

/** The open session is known better from its own events than from the list. */
const listed = computed((): readonly ListedSession[] => {
  const others = sessions.value ?? []
  const title = sessionTitle.value
  return others.map((one) =>
    one.id === session.value && channels.value.length > 0
      ? { ...one, channels: channels.value, ...(typeof title === "string" && { title }) }
      : one,
  )
})

const midnight = (): number => new Date().setHours(0, 0, 0, 0)

const groups = computed(() =>
  sidebarGroups({
    sessions: listed.value,
    seen: seenRev,
    today: midnight(),
  }),
)

export const Sidebar = () => {
  const [query, setQuery] = useState("")
  const wanted = query.trim().toLowerCase()
  const shown = groups.value
    .map(({ label, rows }) => ({
      label,
      rows: rows.filter(({ title }) => title.toLowerCase().includes(wanted)),
    }))
    .filter(({ rows }) => rows.length > 0)
  const isOpen = isPhone() ? isDrawerOpen.value : hasSide.value
  if (!isOpen) return null
  const start = () => {
    isDrawerOpen.value = false
    openNewConversation()
  }
  const follow = (event: MouseEvent, path: string) => {
    if (!isPlainClick(event)) return
    event.preventDefault()
    isDrawerOpen.value = false
    go(path)
  }
  return (
    <nav class="side" aria-label={words.conversations} id="side">
      <div class="side-head">
        <Mark />
        <b>{words.name}</b>
        <span class="grow" />
        <IconButton icon="side" label={words.hideSide} onClick={toggleSide} />
      </div>
      <div class="side-tools">
        <div class="side-start">
          <button type="button" class="button is-plain side-new" onClick={start}>
            <Icon name="plus" />
            {words.newConversation}
          </button>
          {newWorkspaces.value.length > 0 && (
            <Menu
              label={words.newMore}
              items={newWorkspaces.value.map((workspace) => [
                words.newIn[workspace],
                () => {
                  isDrawerOpen.value = false
                  void openSessionIn(workspace)
                },
              ])}
            />
          )}
        </div>
        <label class="side-find">
          <Icon name="search" size={15} />
          <input
            type="search"
            aria-label={words.search}
            placeholder={words.search}
            value={query}
            onInput={({ currentTarget }) => setQuery(currentTarget.value)}
            onKeyDown={({ key }) => {
              if (key === "Enter") layer.value = "search"
            }}
          />
          <kbd class="not-phone">{modKey("K")}</kbd>
        </label>
      </div>
      {createProblem.value !== undefined && (
        <p class="side-none" role="alert">
          {words.notCreated(createProblem.value)}
        </p>
      )}
      <div class="side-list">
        {shown.map(({ label, rows }) => (
          <section key={label} aria-label={label}>
            <h2>{label}</h2>
            <ul>
              {rows.map((row) => (
                <SessionRow
                  key={`${row.session}/${row.channel}`}
                  row={row}
                  isCurrent={
                    row.session === route.value.session && row.channel === route.value.channel
                  }
                  onFollow={(event) => follow(event, pathOf(row))}
                />
              ))}
            </ul>
          </section>
        ))}
        {shown.length === 0 && (
          <p class="side-none">{wanted === "" ? words.noConversations : words.noTitles(query)}</p>
        )}
      </div>
      <ConnectionFoot onSettings={() => openSettings("models")} />
    </nav>
  )
}
