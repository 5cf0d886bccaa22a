/** The bundled model catalogue: which configurations it covers, and that OpenCode offers the same models with it. */
import { describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { z } from "zod"
import manifest from "../../../../package.json" with { type: "json" }
import { readCatalogue } from "../../../../src/runner/opencode/config/catalogue.ts"
import { hasForeignConfig } from "../../../../src/runner/opencode/config/foreign-config.ts"
import type { OpenCodeConfig } from "../../../../src/runner/opencode/config/compose-config.ts"
import { keyedProviders } from "../../../../src/runner/opencode/config/endpoints.ts"
import { startOpenCode } from "../../../kit/opencode.ts"

const VERSION = manifest.dependencies["opencode-ai"]
const catalogue = readCatalogue(VERSION)

const NO_OTHERS = { allowedVariables: [], plugins: [] }

const configWith = (config: OpenCodeConfig["opencodeJson"], ...keys: string[]): OpenCodeConfig => ({
  opencodeJson: { disabled_providers: ["opencode"], ...config },
  auth: Object.fromEntries(keys.map((id) => [id, { type: "api", key: "k" }])),
  instructions: "",
  upstreams: {},
  services: {},
})

describe("a configuration that the bundled catalogue covers", () => {
  test("the catalogue covers every provider whose key the runner reads from the environment", () => {
    expect(catalogue.covers(configWith({}, ...keyedProviders), NO_OTHERS)).toBe(true)
  })

  test("the catalogue covers custom providers that are in no catalogue", () => {
    const provider = { "our-own": { models: {} }, anthropic: { options: {} } }
    expect(catalogue.covers(configWith({ provider }, "our-own"), NO_OTHERS)).toBe(true)
  })

  test("the catalogue covers a configuration that does not enable OpenCode's own provider", () => {
    const config = { disabled_providers: [], enabled_providers: ["anthropic"] }
    expect(catalogue.covers(configWith(config), NO_OTHERS)).toBe(true)
  })
})

describe("a configuration that the bundled catalogue does not cover", () => {
  test("the catalogue does not cover the key of another provider", () => {
    expect(catalogue.covers(configWith({}, "anthropic", "cerebras"), NO_OTHERS)).toBe(false)
  })

  test("the catalogue does not cover the config of another provider", () => {
    expect(catalogue.covers(configWith({ provider: { azure: {} } }), NO_OTHERS)).toBe(false)
  })

  test("the catalogue does not cover a passed variable, which may be a provider key", () => {
    expect(
      catalogue.covers(configWith({}), { ...NO_OTHERS, allowedVariables: ["CEREBRAS_API_KEY"] }),
    ).toBe(false)
  })

  test("the catalogue does not cover foreign plugins, which may add a provider", () => {
    expect(catalogue.covers(configWith({}), { ...NO_OTHERS, plugins: ["plugins/x.js"] })).toBe(
      false,
    )
    expect(catalogue.covers(configWith({ plugin: ["x"] }), NO_OTHERS)).toBe(false)
  })

  test("the catalogue does not cover OpenCode's own provider, which needs no key", () => {
    expect(catalogue.covers(configWith({ disabled_providers: [] }), NO_OTHERS)).toBe(false)
    const enabled = { disabled_providers: [], enabled_providers: ["opencode"] }
    expect(catalogue.covers(configWith(enabled), NO_OTHERS)).toBe(false)
  })

  test("the catalogue does not cover another version of OpenCode", () => {
    expect(readCatalogue("9.9.9").covers(configWith({}), NO_OTHERS)).toBe(false)
  })
})

test.each([
  ["the project's opencode.json is foreign config", "work/repo/opencode.json", true],
  ["a parent folder's opencode.jsonc is foreign config", "work/opencode.jsonc", true],
  ["the project's .opencode folder is foreign config", "work/repo/.opencode/opencode.json", true],
  ["a plugin of the project is foreign config", "work/repo/.opencode/plugin/x.ts", true],
  ["the user's opencode.jsonc is foreign config", "home/.opencode/opencode.jsonc", true],
  ["an installed OpenCode is not foreign config", "home/.opencode/bin/opencode", false],
  ["a sub-project's opencode.json is not foreign config", "work/repo/sub/opencode.json", false],
])("%s", async (_name, path, expected) => {
  const folder = await mkdtemp(join(tmpdir(), "foreign-config-"))
  const [workDir, home] = [join(folder, "work/repo"), join(folder, "home")]
  expect(hasForeignConfig(workDir, home)).toBe(false)
  await Bun.write(join(folder, path), "{}")
  expect(hasForeignConfig(workDir, home)).toBe(expected)
  await rm(folder, { recursive: true })
})

const offered = z.object({
  providers: z.array(z.looseObject({ id: z.string(), models: z.record(z.string(), z.unknown()) })),
  default: z.record(z.string(), z.string()),
})

test("OpenCode offers exactly the same models with the bundled catalogue as with its own", async () => {
  const folder = await mkdtemp(join(tmpdir(), "catalogue-"))
  const file = join(folder, "models.json")
  await Bun.write(file, catalogue.text)
  const auth = JSON.stringify(configWith({}, ...keyedProviders).auth)
  const ask = async (env: Record<string, string>) => {
    const opencode = await startOpenCode({
      config: { disabled_providers: ["opencode"] },
      ownModels: true,
      env: { OPENCODE_AUTH_CONTENT: auth, ...env },
    })
    const authorization = `Basic ${btoa(`opencode:${opencode.password}`)}`
    const response = await fetch(`${opencode.url}/config/providers`, { headers: { authorization } })
    const offer = offered.parse(await response.json())
    await opencode.stop()
    return { ...offer, providers: offer.providers.toSorted((a, b) => (a.id < b.id ? -1 : 1)) }
  }
  const [bundled, full] = await Promise.all([ask({ OPENCODE_MODELS_PATH: file }), ask({})])
  expect(bundled.providers.map(({ id }) => id)).toEqual(keyedProviders.toSorted())
  expect(bundled).toEqual(full)
  await rm(folder, { recursive: true })
})
