/** The settings: a layer over the page, so that what is typed stays where it is. */
import type { ComponentChildren } from "preact"
import { layer, settingsPage } from "../client/layout.ts"
import { mayUse } from "../client/store.ts"
import { Layer } from "../shell/layer.tsx"
import { Icon, type IconName } from "../ui/icon.tsx"
import { IconButton } from "../ui/icon-button.tsx"
import { words } from "../words.ts"
import { Appearance } from "./appearance.tsx"
import { Instructions } from "./instructions.tsx"
import { Keys } from "./keys.tsx"
import { Notifications } from "./notifications.tsx"
import { Shortcuts } from "./shortcuts.tsx"
import { Tools } from "./tools.tsx"

interface Page {
  readonly id: string
  readonly icon: IconName
  readonly title: string
  readonly text: string
  readonly body: () => ComponentChildren
}

const pages: readonly Page[] = [
  { id: "models", icon: "key", title: words.models, text: words.modelsText, body: () => <Keys /> },
  {
    id: "instructions",
    icon: "fileText",
    title: words.instructions,
    text: words.instructionsText,
    body: () => <Instructions />,
  },
  { id: "tools", icon: "tool", title: words.tools, text: words.toolsText, body: () => <Tools /> },
  {
    id: "notifications",
    icon: "bell",
    title: words.notifications,
    text: words.notificationsText,
    body: () => <Notifications />,
  },
  {
    id: "appearance",
    icon: "sun",
    title: words.appearance,
    text: words.appearanceText,
    body: () => <Appearance />,
  },
  {
    id: "shortcuts",
    icon: "command",
    title: words.shortcuts,
    text: words.shortcutsText,
    body: () => <Shortcuts />,
  },
]

/** Pages that change the agent's config and nothing else. */
const OF_CONFIG = new Set(["instructions", "tools"])

export const Settings = () => {
  const shown = pages.filter(({ id }) => mayUse("config") || !OF_CONFIG.has(id))
  const current = shown.find(({ id }) => id === settingsPage.value) ?? shown[0]
  const close = () => (layer.value = undefined)
  if (!current) return null
  return (
    <Layer label={words.settings} class="settings" onClose={close}>
      <nav class="settings-nav" aria-label={words.settings}>
        <b>{words.settings}</b>
        {shown.map(({ id, icon, title }) => (
          <button
            key={id}
            type="button"
            aria-current={id === current.id ? "page" : undefined}
            // Else the layer would focus the list, which can be scrolled.
            autofocus={id === current.id}
            onClick={() => (settingsPage.value = id)}
          >
            <Icon name={icon} />
            {title}
          </button>
        ))}
      </nav>
      <div class="settings-body" tabIndex={0} role="region" aria-label={current.title}>
        <IconButton icon="close" class="settings-close" label={words.close} onClick={close} />
        <h2>{current.title}</h2>
        <p>{current.text}</p>
        {current.body()}
      </div>
    </Layer>
  )
}
