/** The conversations of every session, by day, with a field that filters their titles. */
import { useState } from "preact/hooks"
import { hasSide, isPhone, layer, openSettings, searchText, toggleSide } from "../client/layout.ts"
import { isDrawerOpen } from "../client/drawer.ts"
import { go, isPlainClick, route } from "../client/navigation.ts"
import {
  createProblem,
  newWorkspaces,
  openNewConversation,
  openSessionIn,
  sessions,
} from "../client/store.ts"
import { pathOf } from "../routes.ts"
import { Icon } from "../ui/icon.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { modKey } from "../ui/keys.ts"
import { Mark } from "../ui/mark.tsx"
import { Menu } from "../ui/menu.tsx"
import { QuietBars } from "../ui/quiet-bars.tsx"
import { words } from "../words.ts"
import { conversationGroups } from "./conversation-groups.ts"
import { ConnectionFoot } from "./connection-foot.tsx"
import { FoundMessages } from "./found-messages.tsx"
import { SessionRow } from "./session-row.tsx"

export const Sidebar = () => {
  const [query, setQuery] = useState("")
  const wanted = query.trim().toLowerCase()
  const shown = conversationGroups.value
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
            onKeyDown={(event) => {
              if (event.key !== "Enter" || event.isComposing) return
              searchText.value = query
              layer.value = "search"
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
        {sessions.value === undefined ? (
          <QuietBars />
        ) : (
          shown.length === 0 && (
            <p class="side-none">{wanted === "" ? words.noConversations : words.noTitles(query)}</p>
          )
        )}
        <FoundMessages query={wanted} onFollow={follow} />
      </div>
      <ConnectionFoot onSettings={() => openSettings("models")} />
    </nav>
  )
}
