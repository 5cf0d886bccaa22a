/** Above the conversation: its title, branch and pull requests; context and cost, notifications, panel. */
import { useState } from "preact/hooks"
import { isDrawerOpen } from "../client/drawer.ts"
import { hasSide, toggleSide } from "../client/layout.ts"
import { hasNewVersion } from "../client/new-version.ts"
import { route, showPanel } from "../client/navigation.ts"
import { notifications, toggleNotifications } from "../client/notify.ts"
import { git } from "../client/slices.ts"
import { request, state } from "../client/store.ts"
import { title } from "../client/title.ts"
import { Icon } from "../ui/icon.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { visible } from "../ui/visible.ts"
import { words } from "../words.ts"
import { Meter } from "./meter.tsx"

const Title = () => {
  const [isEditing, setEditing] = useState(false)
  const save = (text: string) => {
    setEditing(false)
    const wanted = text.trim()
    if (wanted === "" || wanted === title.value) return
    void request({ type: "rename", title: wanted, channel: route.value.channel })
  }
  if (isEditing)
    return (
      <input
        class="title-field"
        aria-label={words.renameLabel}
        value={title.value}
        maxLength={200}
        ref={(field) => field?.focus()}
        onBlur={({ currentTarget }) => save(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.isComposing) return
          if (event.key === "Enter") save(event.currentTarget.value)
          if (event.key !== "Escape") return
          event.stopPropagation()
          setEditing(false)
        }}
      />
    )
  return (
    <h1>
      <button type="button" class="title" title={words.rename} onClick={() => setEditing(true)}>
        {visible(title.value)}
      </button>
    </h1>
  )
}

const PullRequests = () => (
  <>
    {Object.entries(state.value)
      .filter(([name]) => name.startsWith("pr:"))
      .map(([name, value]) => {
        const { number, url } = value as { readonly number?: number; readonly url?: string }
        const isLink = typeof url === "string" && /^https?:\/\//.test(url)
        return (
          number !== undefined &&
          isLink && (
            <a
              key={name}
              class="chip not-phone"
              href={url}
              target="_blank"
              rel="noopener noreferrer"
              aria-label={words.pullRequest(number)}
            >
              <Icon name="pull" size={14} />#{number}
            </a>
          )
        )
      })}
  </>
)

export const Bar = () => {
  const branch = git.value?.branch
  const { panel } = route.value
  const bell = notifications.value
  return (
    <header class="bar">
      {!hasSide.value && (
        <IconButton icon="side" class="not-phone" label={words.showSide} onClick={toggleSide} />
      )}
      <IconButton
        icon="menu"
        class="only-phone"
        label={words.showSide}
        expanded={isDrawerOpen.value}
        onClick={toggleSide}
      />
      <Title />
      {branch && (
        <span class="bar-branch not-phone">
          <Icon name="branch" size={14} />
          {visible(branch)}
        </span>
      )}
      <PullRequests />
      <span class="grow" />
      {hasNewVersion.value && (
        <button type="button" class="chip is-new" onClick={() => location.reload()}>
          <Icon name="reload" size={14} />
          {words.updated}
        </button>
      )}
      <Meter />
      <IconButton
        icon={bell === "on" ? "bell" : "bellOff"}
        class="not-phone"
        label={
          bell === "on"
            ? words.notifyOn
            : bell === "blocked"
              ? words.notifyBlocked
              : words.notifyOff
        }
        pressed={bell === "on"}
        onClick={toggleNotifications}
      />
      <IconButton
        icon="panel"
        label={panel ? words.hidePanel : words.showPanel}
        pressed={panel !== undefined}
        onClick={() => showPanel(panel ? undefined : "changes")}
      />
    </header>
  )
}
