/** The foot of the side: connection, theme, settings. */
import { setTheme, theme } from "../client/theme.ts"
import { link } from "../client/slices.ts"
import { IconButton } from "../ui/icon-button.tsx"
import { Spinner } from "../ui/spinner.tsx"
import { words } from "../words.ts"

const NEXT = { auto: "light", light: "dark", dark: "auto" } as const
const ICONS = { auto: "auto", light: "sun", dark: "moon" } as const

export const ConnectionFoot = ({ onSettings }: { readonly onSettings: () => void }) => {
  const { state } = link.value
  return (
    <div class="side-foot">
      {state === "open" ? <span class="connection-dot" /> : <Spinner size={12} />}
      <span>
        {state === "open"
          ? words.connected
          : state === "connecting"
            ? words.connecting
            : words.reconnecting}
      </span>
      <span class="grow" />
      <IconButton
        icon={ICONS[theme.value]}
        label={words.theme[theme.value]}
        onClick={() => setTheme(NEXT[theme.value])}
      />
      <IconButton icon="settings" label={words.settings} onClick={onSettings} />
    </div>
  )
}
