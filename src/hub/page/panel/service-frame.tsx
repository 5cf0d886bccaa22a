/** Terminal, desktop and editor: their frame, or why there is none. */
import { view } from "../client/store.ts"
import type { PanelName } from "../routes.ts"
import type { IconName } from "../ui/icon.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import { Frame } from "./frame.tsx"

type Service = "vscode" | "vnc" | "terminal"

const SERVICES: Partial<Record<PanelName, { readonly service: Service; readonly icon: IconName }>> =
  {
    terminal: { service: "terminal", icon: "terminal" },
    desktop: { service: "vnc", icon: "screen" },
    editor: { service: "vscode", icon: "file" },
  }

const stateOf = (service: Service): unknown =>
  (view.value.state["services"] as Readonly<Record<string, unknown>> | undefined)?.[service]

export const ServiceFrame = ({ name }: { readonly name: PanelName }) => {
  const row = SERVICES[name]
  if (!row) return null
  const title = words.tabs[name]
  const state = stateOf(row.service)
  if (state === "starting") return <Empty icon={row.icon} title={words.starting(title)} isBusy />
  if (state === "off" || state === "failed")
    return (
      <Empty
        icon={row.icon}
        title={words.notRunning(title)}
        text={state === "off" ? words.notInstalled : undefined}
      />
    )
  return <Frame what={row.service} title={title} />
}
