/** What the bridge says about a session's sandbox. Pure. */
import type { Capabilities, ProviderName } from "../providers/contract.ts"
import { isTouched, type Life } from "./life.ts"
import { isNewProvision } from "./statuses.ts"

export interface BridgeEntry {
  readonly providerSandboxId: string
  readonly provider: ProviderName
  /** What the sandbox serves to people; null while it does not run. */
  readonly containerUrl: string | null
  /** An earlier sandbox of this session had files that this one does not have. */
  readonly isNewProvision: boolean
}

export const bridgeKey = (session: string): string => `sandbox:${session}`

/** The sandbox that other programs may use: its runner has connected, or it sleeps. Undefined: there is none. */
export const usableRef = (life: Life): string | undefined =>
  life.phase === "running" || life.phase === "paused" || isTouched(life) ? life.ref : undefined

export const bridgeEntry = (
  life: Life,
  { name, can }: { readonly name: ProviderName; readonly can: Pick<Capabilities, "volumes"> },
  containerUrl: string | null,
): BridgeEntry | undefined => {
  const ref = usableRef(life)
  if (ref === undefined) return undefined
  const isNew = isNewProvision(life, can.volumes)
  return { providerSandboxId: ref, provider: name, containerUrl, isNewProvision: isNew }
}

/** Changes of a life that do not change this do not change the entry either, except for an address that has expired. */
export const bridgeMark = (life: Life): string =>
  [usableRef(life) ?? "", life.phase === "running", life.snapshot === undefined].join(" ")
