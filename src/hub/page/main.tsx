/** The first module of the page: it logs in, connects, and renders the app. */
import { render } from "preact"
import { App } from "./app.tsx"
import { loadMarkdown } from "./parts/lazy-markdown.tsx"
import { redeemLink } from "./client/login.ts"
import { watchAddress } from "./client/navigation.ts"
import { watchForNotifications } from "./client/notify.ts"
import { start } from "./client/store.ts"
import { watchSwipes } from "./client/swipe.ts"
import { watchTheme } from "./client/theme.ts"
import { watchTitle } from "./client/title.ts"
import { watchViewport } from "./client/viewport.ts"
import { watchKeys } from "./shell/shortcuts.ts"

const run = async () => {
  void loadMarkdown()
  watchTheme()
  watchAddress()
  watchViewport()
  const root = document.querySelector("#app")
  await redeemLink()
  start()
  watchTitle()
  watchForNotifications()
  watchKeys()
  watchSwipes()
  if (root) render(<App />, root)
}

void run()
