/**
 * Which models there are: OpenCode carries a catalogue of every provider, and takes most of a second to lay it out
 * before its first answer. Handed the part that can be used here it starts that much sooner; where more may be wanted
 * it gets nothing, and lays out its own.
 */
import { readFileSync } from "node:fs"
import { z } from "zod"
import part from "./catalogue.ndjson" with { type: "file" }
import type { OpenCodeConfig } from "./compose-config.ts"

/** What else may bring a provider with it; which, only OpenCode knows. */
export interface Beside {
  /** Variables that the operator lets through: any may be a key. */
  readonly allowedVariables: readonly string[]
  /** Plugins that are not the runner's. */
  readonly plugins: readonly string[]
}

export interface Catalogue {
  /** Whether all that this configuration can use is in the part. */
  readonly suffices: (settings: OpenCodeConfig, beside: Beside) => boolean
  /** As OpenCode reads it from a file. */
  readonly text: string
}

/** A first line, then one for each provider of the part: nothing is parsed but the first. */
const heading = z.object({ opencode: z.string(), others: z.array(z.string()) })

export const readCatalogue = (opencodeVersion: string): Catalogue => {
  const [first = "", ...providers] = readFileSync(part, "utf8").trimEnd().split("\n")
  const { opencode, others } = heading.parse(JSON.parse(first))
  const beyond = new Set(others)
  return {
    suffices: ({ auth, config }, { allowedVariables, plugins }) =>
      opencode === opencodeVersion &&
      allowedVariables.length + plugins.length === 0 &&
      config["plugin"] === undefined &&
      !needsNoKey(config) &&
      [...Object.keys(auth), ...namesOf(config["provider"])].every((id) => !beyond.has(id)),
    text: `{${providers.map((line) => line.slice(1, -1)).join(",")}}`,
  }
}

const KEYLESS = "opencode"

/** OpenCode's own provider is there for everyone, unless it is turned off. */
const needsNoKey = (config: OpenCodeConfig["config"]): boolean => {
  const [on, off] = [config["enabled_providers"], config["disabled_providers"]]
  if (Array.isArray(off) && off.includes(KEYLESS)) return false
  return !Array.isArray(on) || on.includes(KEYLESS)
}

const namesOf = (value: unknown): readonly string[] =>
  typeof value === "object" && value !== null ? Object.keys(value) : []
