/**
 * The subset of OpenCode's model catalogue that this program bundles. OpenCode needs most of a second to load its full
 * catalogue before its first response, and much less with the subset. When a configuration may need other providers,
 * OpenCode gets no file and loads its own catalogue (decision 0014).
 */
import { readFileSync } from "node:fs"
import { z } from "zod"
import subsetFile from "./catalogue.ndjson" with { type: "file" }
import type { UpstreamAddress } from "../../broker/upstreams.ts"
import type { OpenCodeConfig } from "./compose-config.ts"

/** What else may add a provider; only OpenCode can tell which one. */
export interface OtherProviderSources {
  /** Variables that the operator passes on to OpenCode: any may be a provider key. */
  readonly allowedVariables: readonly string[]
  /** Plugins that this program does not bundle. */
  readonly plugins: readonly string[]
}

export interface Catalogue {
  /** True if the subset has every provider that the configuration can use. */
  readonly covers: (config: OpenCodeConfig, others: OtherProviderSources) => boolean
  /** The content of the file that OpenCode reads. */
  readonly text: string
  /** Where the API of each provider outside the subset is, for those that take a key in one header. */
  readonly addresses: Readonly<Record<string, UpstreamAddress>>
}

const authStyle = z.enum(["bearer", "x-api-key", "x-goog-api-key"])
/** The first line of the file; one line for each provider follows, which is never parsed here. */
const header = z.object({
  opencode: z.string(),
  others: z.array(z.string()),
  addresses: z.record(z.string(), z.object({ baseUrl: z.string(), auth: authStyle })),
})

export const readCatalogue = (opencodeVersion: string): Catalogue => {
  const [first = "", ...providers] = readFileSync(subsetFile, "utf8").trimEnd().split("\n")
  const { opencode, others, addresses } = header.parse(JSON.parse(first))
  const notInSubset = new Set(others)
  return {
    covers: ({ auth, opencodeJson }, { allowedVariables, plugins }) =>
      opencode === opencodeVersion &&
      allowedVariables.length + plugins.length === 0 &&
      opencodeJson["plugin"] === undefined &&
      !hasKeylessProvider(opencodeJson) &&
      [...Object.keys(auth), ...keysOf(opencodeJson["provider"])].every(
        (id) => !notInSubset.has(id),
      ),
    text: `{${providers.map((line) => line.slice(1, -1)).join(",")}}`,
    addresses,
  }
}

const KEYLESS = "opencode"

/** OpenCode's own provider needs no key, so it is available unless it is disabled. */
const hasKeylessProvider = (opencodeJson: OpenCodeConfig["opencodeJson"]): boolean => {
  const [enabled, disabled] = [
    opencodeJson["enabled_providers"],
    opencodeJson["disabled_providers"],
  ]
  if (Array.isArray(disabled) && disabled.includes(KEYLESS)) return false
  return !Array.isArray(enabled) || enabled.includes(KEYLESS)
}

const keysOf = (value: unknown): readonly string[] =>
  typeof value === "object" && value !== null ? Object.keys(value) : []
