/** The services as the page shows them: one state for all programs of a panel. Pure. */
import type { Outbound } from "../../wire/frames/index.ts"
import type { ServiceState } from "./service-state.ts"
import type { Service, ServiceGroup } from "./service-table.ts"

export type PanelServices = Omit<Outbound<"services">, "type" | "seq">
type PanelState = PanelServices["vscode"]

const PHASES: Readonly<Record<ServiceState["phase"], PanelState>> = {
  idle: "starting",
  starting: "starting",
  ready: "ready",
  resting: "starting",
  failed: "failed",
  off: "off",
  stopped: "off",
}

/** The worst state of a group's programs counts. A group that was not requested is off. */
const ORDER: readonly PanelState[] = ["off", "failed", "starting", "ready"]

const stateOf = (
  group: ServiceGroup,
  services: readonly Service[],
  states: ReadonlyMap<string, ServiceState>,
): PanelState => {
  const known = services
    .filter((service) => service.group === group && !service.optional)
    .map(({ name }) => PHASES[states.get(name)?.phase ?? "idle"])
  return ORDER.find((state) => known.includes(state)) ?? "off"
}

/** `hasTerminals`: the runner itself serves terminals. `missing` are programs that are not installed. */
export const panelServices = (
  services: readonly Service[],
  states: ReadonlyMap<string, ServiceState>,
  {
    missing,
    hasTerminals,
  }: { readonly missing: readonly string[]; readonly hasTerminals: boolean },
): PanelServices => ({
  vscode: stateOf("vscode", services, states),
  vnc: stateOf("vnc", services, states),
  terminal: hasTerminals ? "ready" : "off",
  ...(missing.length > 0 && { lacks: [...new Set(missing)] }),
})
