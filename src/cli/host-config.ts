/**
 * The part of a session's config that `up` sets: the demo model, and the tools that its hub can serve. All else in the
 * config was set by a client and stays.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { z } from "zod"
import { parseJson } from "../lib/json.ts"
import type { RuntimeConfig } from "../runner/opencode/config/compose-config.ts"

export interface HostConfig {
  /** The demo model, if it runs. */
  readonly provider?: NonNullable<RuntimeConfig["customProviders"]>[number] | undefined
  readonly tools: NonNullable<RuntimeConfig["tools"]>
}

const DEMO_PROVIDER = "demo"

export const demoProvider = (url: string) => ({
  providerId: DEMO_PROVIDER,
  displayName: "Demo model (scripted, not an LLM)",
  baseUrl: url,
  apiKey: "none",
  models: [{ id: "demo-1", name: "Demo 1 (scripted)" }],
})

/** Models that a client has configured: no demo model is needed beside them. */
export const hasClientModels = ({ customProviders = [], providerKeys = {} }: RuntimeConfig) =>
  customProviders.some(({ providerId }) => providerId !== DEMO_PROVIDER) ||
  Object.keys(providerKeys).length > 0

/** `before` are the tools that the last `up` set: those that a client has not changed since are replaced. */
export const withHostConfig = (
  stored: RuntimeConfig,
  before: HostConfig["tools"],
  { provider, tools }: HostConfig,
): RuntimeConfig => {
  const ofClient = Object.entries(stored.tools ?? {}).filter(([name, on]) => before[name] !== on)
  const others = (stored.customProviders ?? []).filter(
    ({ providerId }) => providerId !== DEMO_PROVIDER,
  )
  return {
    customProviders: [...others, ...(provider ? [provider] : [])],
    tools: { ...tools, ...Object.fromEntries(ofClient) },
  }
}

const storedTools = z.record(z.string(), z.boolean())

/** The tools that the last `up` of this place set, in a file of its state directory. */
export const openHostTools = (stateDir: string) => {
  const file = join(stateDir, "host-tools.json")
  return {
    read: (): HostConfig["tools"] => {
      try {
        return storedTools.safeParse(parseJson(readFileSync(file, "utf8"))).data ?? {}
      } catch {
        return {}
      }
    },
    write: (tools: HostConfig["tools"]) =>
      writeFileSync(file, `${JSON.stringify(tools)}\n`, { mode: 0o600 }),
  }
}
