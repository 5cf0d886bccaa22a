/** The part of the models that OpenCode is handed: when it is enough, and that OpenCode makes the same of it. */
import { describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { z } from "zod"
import manifest from "../../../../package.json" with { type: "json" }
import { readCatalogue } from "../../../../src/runner/opencode/config/catalogue.ts"
import { hasOtherConfig } from "../../../../src/runner/opencode/config/foreign-config.ts"
import {
  keyedProviders,
  type OpenCodeConfig,
} from "../../../../src/runner/opencode/config/compose-config.ts"
import { startOpenCode } from "../../../kit/opencode.ts"

const VERSION = manifest.dependencies["opencode-ai"]
const catalogue = readCatalogue(VERSION)

const NOTHING = { allowedVariables: [], plugins: [] }

const settings = (config: OpenCodeConfig["config"], ...keys: string[]): OpenCodeConfig => ({
  config: { disabled_providers: ["opencode"], ...config },
  auth: Object.fromEntries(keys.map((id) => [id, { type: "api", key: "k" }])),
  instructions: "",
})

describe("the part suffices", () => {
  test("for every provider that the runner takes a key for by name", () => {
    expect(catalogue.suffices(settings({}, ...keyedProviders), NOTHING)).toBe(true)
  })

  test("for providers that no catalogue knows", () => {
    const provider = { "our-own": { models: {} }, anthropic: { options: {} } }
    expect(catalogue.suffices(settings({ provider }, "our-own"), NOTHING)).toBe(true)
  })

  test("where OpenCode's own provider is not among those that are enabled", () => {
    const config = { disabled_providers: [], enabled_providers: ["anthropic"] }
    expect(catalogue.suffices(settings(config), NOTHING)).toBe(true)
  })
})

describe("the part does not suffice", () => {
  test("for the key of another provider", () => {
    expect(catalogue.suffices(settings({}, "anthropic", "cerebras"), NOTHING)).toBe(false)
  })

  test("for the settings of another provider", () => {
    expect(catalogue.suffices(settings({ provider: { azure: {} } }), NOTHING)).toBe(false)
  })

  test("where a variable passes that may be some provider's key", () => {
    expect(
      catalogue.suffices(settings({}), { ...NOTHING, allowedVariables: ["CEREBRAS_API_KEY"] }),
    ).toBe(false)
  })

  test("where a plugin that is not ours may bring a provider", () => {
    expect(catalogue.suffices(settings({}), { ...NOTHING, plugins: ["plugins/x.js"] })).toBe(false)
    expect(catalogue.suffices(settings({ plugin: ["x"] }), NOTHING)).toBe(false)
  })

  test("where OpenCode's own provider, which needs no key, is on", () => {
    expect(catalogue.suffices(settings({ disabled_providers: [] }), NOTHING)).toBe(false)
    const enabled = { disabled_providers: [], enabled_providers: ["opencode"] }
    expect(catalogue.suffices(settings(enabled), NOTHING)).toBe(false)
  })

  test("for another version of OpenCode", () => {
    expect(readCatalogue("9.9.9").suffices(settings({}), NOTHING)).toBe(false)
  })
})

test.each([
  ["the project", "work/repo/opencode.json", true],
  ["a folder above it", "work/opencode.jsonc", true],
  ["the project's folder for it", "work/repo/.opencode/opencode.json", true],
  ["the project's plugins", "work/repo/.opencode/plugin/x.ts", true],
  ["the user", "home/.opencode/opencode.jsonc", true],
  ["an installed OpenCode", "home/.opencode/bin/opencode", false],
  ["a project below", "work/repo/sub/opencode.json", false],
])("configuration of %s is seen for what it is", async (_whose, path, expected) => {
  const folder = await mkdtemp(join(tmpdir(), "other-config-"))
  const [workDir, home] = [join(folder, "work/repo"), join(folder, "home")]
  expect(hasOtherConfig(workDir, home)).toBe(false)
  await Bun.write(join(folder, path), "{}")
  expect(hasOtherConfig(workDir, home)).toBe(expected)
  await rm(folder, { recursive: true })
})

const offered = z.object({
  providers: z.array(z.looseObject({ id: z.string(), models: z.record(z.string(), z.unknown()) })),
  default: z.record(z.string(), z.string()),
})

test("OpenCode offers the same models, to the last word of each, as from its own catalogue", async () => {
  const folder = await mkdtemp(join(tmpdir(), "catalogue-"))
  const file = join(folder, "models.json")
  await Bun.write(file, catalogue.text)
  const auth = JSON.stringify(settings({}, ...keyedProviders).auth)
  const ask = async (env: Record<string, string>) => {
    const opencode = await startOpenCode({
      config: { disabled_providers: ["opencode"] },
      ownModels: true,
      env: { OPENCODE_AUTH_CONTENT: auth, ...env },
    })
    const authorization = `Basic ${btoa(`opencode:${opencode.password}`)}`
    const response = await fetch(`${opencode.url}/config/providers`, { headers: { authorization } })
    const said = offered.parse(await response.json())
    await opencode.stop()
    return { ...said, providers: said.providers.toSorted((a, b) => (a.id < b.id ? -1 : 1)) }
  }
  const [part, whole] = await Promise.all([ask({ OPENCODE_MODELS_PATH: file }), ask({})])
  expect(part.providers.map(({ id }) => id)).toEqual(keyedProviders.toSorted())
  expect(part).toEqual(whole)
  await rm(folder, { recursive: true })
})
