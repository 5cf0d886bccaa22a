/** Terminal, desktop and editor: their frame, or why there is none. */
import { stateOf } from "../client/slices.ts"
import type { PanelName } from "../routes.ts"
import type { IconName } from "../ui/icon.tsx"
import { words } from "../words.ts"
import { Empty } from "./empty.tsx"
import { Frame } from "./frame.tsx"
import { whyOff } from "./why-off.ts"

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
const reported = stateOf("services")
const services = (): Services => (reported.value as Services | undefined) ?? {}

export const ServiceFrame = ({ name }: { readonly name: PanelName }) => {
  const row = SERVICES[name]
  if (!row) return null
  const title = words.tabs[name]
  const state = services()[row.service]
  if (state === "starting") return <Empty icon={row.icon} title={words.starting(title)} isBusy />
  if (state === "failed") return <Empty icon={row.icon} title={words.notRunning(title)} />
  if (state === "off") {
    const { text, command } = whyOff(row.service, row.programs, services().lacks)
    return (
      <Empty icon={row.icon} title={words.notRunning(title)} text={text}>
        {command !== undefined && <code>{command}</code>}
      </Empty>
    )
  }
  return <Frame what={row.service} title={title} />
}
