/** The page: side, conversation, panel, and the layers over them. */
import { useEffect } from "preact/hooks"
import { closeDrawer, isDrawerOpen } from "./client/drawer.ts"
import { hasSide, layer, panelWidth } from "./client/layout.ts"
import { login, offered } from "./client/login.ts"
import { go, route } from "./client/navigation.ts"
import { channels } from "./client/slices.ts"
import { markSeen, mayCreate, sessions } from "./client/store.ts"
import { Dock } from "./dock/dock.tsx"
import { Log } from "./log/log.tsx"
import { Banner } from "./shell/banner.tsx"
import { Bar } from "./shell/bar.tsx"
import { DropTarget } from "./shell/drop-target.tsx"
import { LiveRegion } from "./shell/live-region.tsx"
import { LoginScreen, OfferScreen } from "./shell/login-screen.tsx"
import { Separator } from "./shell/separator.tsx"
import { Sidebar } from "./shell/sidebar.tsx"
import { Button } from "./ui/button.tsx"
import { lazy } from "./ui/lazy.tsx"
import { words } from "./words.ts"

const Panel = lazy(async () => (await import("./panel/panel.tsx")).Panel)
const Settings = lazy(async () => (await import("./settings/settings.tsx")).Settings)
const Palette = lazy(async () => (await import("./shell/palette.tsx")).Palette)

const Unknown = () => (
  <main class="login">
    <h1>{words.unknownPage}</h1>
    <Button onClick={() => go("/")}>{words.toStart}</Button>
  </main>
)

/** Before the first conversation is known, or where there is none and the person may not make one. */
const Start = () => (
  <main class="login">
    {sessions.value?.length === 0 && !mayCreate.value && <h1>{words.nothingShared}</h1>}
  </main>
)

const Conversation = () => (
  <main class="main">
    <Bar />
    <Banner />
    <Log />
    <Dock />
    <DropTarget />
  </main>
)

export const App = () => {
  useEffect(markSeen, [channels.value, route.value])
  if (offered.value) return <OfferScreen offer={offered.value} />
  if (login.value === "refused") return <LoginScreen />
  const { place, panel } = route.value
  if (place === "unknown") return <Unknown />
  const shape = [
    hasSide.value ? "" : "no-side",
    panel ? "has-panel" : "",
    isDrawerOpen.value ? "has-drawer" : "",
  ].join(" ")
  return (
    <div class={`app ${shape}`} style={{ "--panel-w": `${panelWidth.value}px` }}>
      <a class="skip" href="#prompt">
        {words.skip}
      </a>
      <Sidebar />
      {isDrawerOpen.value && (
        <button type="button" class="veil" aria-label={words.close} onClick={closeDrawer} />
      )}
      {place === "start" ? <Start /> : <Conversation />}
      {panel && (
        <aside class="panel" aria-label={words.panel} id="panel">
          <Separator />
          <Panel name={panel} />
        </aside>
      )}
      {layer.value === "settings" && <Settings />}
      {layer.value === "search" && <Palette />}
      <LiveRegion />
    </div>
  )
}
