/** The addresses of the page: `/`, `/c/<session>/<channel>`, `?panel=`, `#m=<message>`. Pure. */

export type PanelName =
  | "changes"
  | "terminal"
  | "preview"
  | "desktop"
  | "editor"
  | "review"
  | "images"
  | "tasks"
  | "memories"

export const PANELS: readonly PanelName[] = [
  "changes",
  "terminal",
  "preview",
  "desktop",
  "editor",
  "review",
  "images",
  "tasks",
  "memories",
]

/** Tabs that are always there; the others are in a menu beside them. */
export const MAIN_PANELS: readonly PanelName[] = PANELS.slice(0, 5)

export interface Route {
  readonly place: "start" | "conversation" | "unknown"
  readonly session: string
  readonly channel: string
  readonly panel: PanelName | undefined
  readonly message: string | undefined
}

export const parseRoute = (path: string, search: string, hash: string): Route => {
  const [first, session, channel, ...rest] = path.split("/").filter((segment) => segment !== "")
  const named = new URLSearchParams(search).get("panel")
  const panel = PANELS.find((name) => name === named)
  const message = hash.startsWith("#m=") ? decode(hash.slice(3)) : undefined
  const common = { panel, message }
  if (first === undefined) return { place: "start", session: "", channel: "", ...common }
  const isConversation = first === "c" && session !== undefined && channel !== undefined
  if (!isConversation || rest.length > 0 || !decode(channel).includes(":"))
    return { place: "unknown", session: "", channel: "", ...common }
  return { place: "conversation", session: decode(session), channel: decode(channel), ...common }
}

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export const pathOf = ({
  session,
  channel,
  panel,
  message,
}: Pick<Route, "session" | "channel"> & Partial<Pick<Route, "panel" | "message">>): string =>
  `/c/${encodeURIComponent(session)}/${encodeURIComponent(channel).replaceAll("%3A", ":")}` +
  (panel ? `?panel=${panel}` : "") +
  (message ? `#m=${encodeURIComponent(message)}` : "")

/** `web:a1b2` as the verbs name it. */
export const channelFields = (
  channel: string,
): { readonly channelType: string; readonly channelId: string } => {
  const cut = channel.indexOf(":")
  return { channelType: channel.slice(0, cut), channelId: channel.slice(cut + 1) }
}
