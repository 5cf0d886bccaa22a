/**
 * Changes single entries of the agent's config: absent entries and fields stay, `null` removes one. The key of an endpoint
 * belongs to its address: a new address without a key is refused, else a client could have a stored key sent to its own server.
 */
import type { z } from "zod"
import type { configPatch } from "../../wire/frames/shapes.ts"
import type { AgentConfig } from "./rows.ts"

export type ConfigPatch = z.output<typeof configPatch>

type Endpoint = NonNullable<AgentConfig["customProviders"]>[number]
type EndpointPatch = NonNullable<NonNullable<ConfigPatch["customProviders"]>[string]>

export type Patched =
  | { readonly ok: true; readonly change: AgentConfig }
  | { readonly ok: false; readonly problem: string }

/** `change` has the whole value of each field that the patch names. */
export const patchConfig = (stored: AgentConfig, patch: ConfigPatch): Patched => {
  const endpoints = patchEndpoints(stored.customProviders ?? [], patch.customProviders ?? {})
  if (!endpoints.ok) return endpoints
  return {
    ok: true,
    change: {
      ...(patch.tools && { tools: patchEntries(stored.tools ?? {}, patch.tools) }),
      ...(patch.providerKeys && {
        providerKeys: patchEntries(stored.providerKeys ?? {}, patch.providerKeys),
      }),
      ...(patch.customProviders && { customProviders: endpoints.list }),
    },
  }
}

const patchEntries = <Value>(
  stored: Readonly<Record<string, Value>>,
  patch: Readonly<Record<string, Value | null>>,
): Record<string, Value> => {
  const entries = new Map(Object.entries(stored))
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) entries.delete(name)
    else entries.set(name, value)
  }
  return Object.fromEntries(entries)
}

type PatchedEndpoints =
  | { readonly ok: true; readonly list: Endpoint[] }
  | { readonly ok: false; readonly problem: string }

/** An endpoint keeps its place in the list; new ones come last. */
const patchEndpoints = (
  stored: readonly Endpoint[],
  patch: NonNullable<ConfigPatch["customProviders"]>,
): PatchedEndpoints => {
  const endpoints = new Map(stored.map((one) => [one.providerId, one]))
  for (const [id, fields] of Object.entries(patch)) {
    if (fields === null) {
      endpoints.delete(id)
      continue
    }
    const patched = patchEndpoint(id, endpoints.get(id), fields)
    if (typeof patched === "string")
      return { ok: false, problem: `patch.customProviders: ${patched}` }
    endpoints.set(id, patched)
  }
  return { ok: true, list: [...endpoints.values()] }
}

/** A text is the problem. */
const patchEndpoint = (
  providerId: string,
  stored: Endpoint | undefined,
  { displayName, baseUrl, apiKey, models }: EndpointPatch,
): Endpoint | string => {
  const address = baseUrl ?? stored?.baseUrl
  if (address === undefined) return `${providerId} is new: it needs a baseUrl`
  const isMoved = stored !== undefined && originOf(stored.baseUrl) !== originOf(address)
  if (isMoved && stored.apiKey !== undefined && apiKey === undefined)
    return `the key of ${providerId} belongs to its former address: send the key for the new address, or null`
  const key = apiKey === undefined ? stored?.apiKey : (apiKey ?? undefined)
  return {
    providerId,
    displayName: displayName ?? stored?.displayName ?? providerId,
    baseUrl: address,
    ...(key !== undefined && { apiKey: key }),
    // The models of another server are not known: the runner asks it for them.
    models: models ?? (isMoved ? [] : (stored?.models ?? [])),
  }
}

const originOf = (address: string): string =>
  URL.canParse(address) ? new URL(address).origin : address
