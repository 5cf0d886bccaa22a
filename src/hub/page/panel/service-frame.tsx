/** Terminal, desktop and editor: their frame, or why there is none. */
import { view } from "../client/store.ts"
import type { PanelName } from "../routes.ts"
import type { IconName } from "../ui/icon.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import { Frame } from "./frame.tsx"

type Service = "vscode" | "vnc" | "terminal"

interface Row {
  readonly service: Service
  readonly icon: IconName
  /** The programs that it consists of. */
  readonly programs: readonly string[]
}

const SERVICES: Partial<Record<PanelName, Row>> = {
  terminal: { service: "terminal", icon: "terminal", programs: [] },
  desktop: { service: "vnc", icon: "screen", programs: ["Xvfb", "x11vnc", "websockify"] },
  editor: { service: "vscode", icon: "file", programs: ["code-server"] },
}

type Services = Partial<Readonly<Record<Service, unknown> & { readonly lacks: unknown }>>
const services = (): Services => (view.value.state["services"] as Services | undefined) ?? {}

/** What the sandbox lacks for it, by name where the runner has said so. */
const whyOff = (programs: readonly string[]): string => {
  const { lacks } = services()
  const missing = Array.isArray(lacks) ? programs.filter((name) => lacks.includes(name)) : []
  return missing.length === 0 ? words.notInstalled : words.lacks(missing)
}

export const ServiceFrame = ({ name }: { readonly name: PanelName }) => {
  const row = SERVICES[name]
  if (!row) return null
  const title = words.tabs[name]
  const state = services()[row.service]
  if (state === "starting") return <Empty icon={row.icon} title={words.starting(title)} isBusy />
  if (state === "off" || state === "failed")
    return (
      <Empty
        icon={row.icon}
        title={words.notRunning(title)}
        text={state === "off" ? whyOff(row.programs) : undefined}
      />
    )
  return <Frame what={row.service} title={title} />
}
