/** From configurations to files: what is merged, what is refused, what never passes. */
import { describe, expect, test } from "bun:test"
import { agentEnvironment } from "../../../../src/runner/opencode/launch/environment.ts"
import {
  composeConfig,
  mergeRuntime,
  type RuntimeConfig,
  SettingsError,
} from "../../../../src/runner/opencode/config/compose-config.ts"

const compose = (runtime: RuntimeConfig, more: Partial<Parameters<typeof composeConfig>[0]> = {}) =>
  composeConfig({
    base: { share: "disabled", permission: { "*": "allow" }, tools: { websearch: false } },
    runtime,
    environment: {},
    permissions: "allow",
    allowedModels: undefined,
    instructionFiles: [],
    sentencesFile: "/state/session.md",
    ...more,
  })

const warmUp: unknown = expect.objectContaining({ name: "Warm-up (nobody answers)" })
const provider = { providerId: "mine", displayName: "Mine", baseUrl: "http://x/v1", apiKey: "k-1" }

const local = (command: string[]) => ({ type: "local" as const, command })

describe("settings", () => {
  test("without a configuration are the base", () => {
    expect(compose({})).toEqual({
      config: {
        share: "disabled",
        permission: { "*": "allow", websearch: "deny" },
        provider: { "sandpiper-warm-up": warmUp },
      },
      auth: {},
      instructions: "",
    })
  })

  test("write sentences to a file and name files only", () => {
    const { config, instructions } = compose(
      { instructions: ["Be brief.", "Be kind."] },
      { instructionFiles: ["/state/always.md"] },
    )
    expect(config["instructions"]).toEqual(["/state/always.md", "/state/session.md"])
    expect(instructions).toBe("Be brief.\n\nBe kind.\n")
  })

  test("add tools, providers and keys; the session agent's key wins", () => {
    const { config, auth } = compose(
      {
        tools: { webfetch: false },
        providerKeys: { openai: "from-session" },
        customProviders: [
          { ...provider, models: [{ id: "m", contextLimit: 1000, inputs: ["text", "image"] }] },
        ],
      },
      { environment: { OPENAI_API_KEY: "from-env", ANTHROPIC_API_KEY: "a" } },
    )
    expect(config["permission"]).toEqual({ "*": "allow", websearch: "deny", webfetch: "deny" })
    expect(config["provider"]).toEqual({
      "sandpiper-warm-up": warmUp,
      mine: {
        npm: "@ai-sdk/openai-compatible",
        name: "Mine",
        options: { baseURL: "http://x/v1" },
        models: {
          m: {
            name: "m",
            tool_call: true,
            attachment: true,
            modalities: { input: ["text", "image"], output: ["text"] },
            limit: { context: 1000, output: 8192 },
          },
        },
      },
    })
    expect(auth).toEqual({
      openai: { type: "api", key: "from-session" },
      anthropic: { type: "api", key: "a" },
      mine: { type: "api", key: "k-1" },
    })
  })

  test("deny what is off behind all other rules, whoever turns it on", () => {
    const { config } = compose(
      { tools: { parallel_web_search: true, bash: true } },
      { hiddenTools: ["parallel_*"], permissions: "relay" },
    )
    expect(Object.keys(config["permission"] as object).slice(-2)).toEqual([
      "websearch",
      "parallel_*",
    ])
    expect(config["tools"]).toEqual({ parallel_web_search: true, bash: true })
  })

  test("hold the keys in auth.json alone", () => {
    const { config } = compose({
      providerKeys: { openai: "a-key" },
      customProviders: [{ ...provider, models: [{ id: "m" }] }],
    })
    expect(JSON.stringify(config)).not.toContain("a-key")
    expect(JSON.stringify(config)).not.toContain("k-1")
  })

  test("add MCP servers to those of the base, each with a limit to its start", () => {
    const { config } = compose(
      {
        mcpServers: {
          notes: { type: "local", command: ["notes", "--stdio"], environment: { A: "1" } },
          search: { type: "remote", url: "https://mcp.example/", headers: { "x-key": "k" } },
        },
      },
      { base: { mcp: { old: { type: "local", command: ["old"] } } } },
    )
    expect(config["mcp"]).toEqual({
      old: { type: "local", command: ["old"] },
      notes: {
        type: "local",
        command: ["notes", "--stdio"],
        environment: { A: "1" },
        enabled: true,
        timeout: 10_000,
      },
      search: {
        type: "remote",
        url: "https://mcp.example/",
        headers: { "x-key": "k" },
        enabled: true,
        timeout: 10_000,
        oauth: false,
      },
    })
  })

  test("let through the models of a list only", () => {
    const { config } = compose(
      { customProviders: [{ ...provider, models: [{ id: "m" }] }] },
      { allowedModels: ["mine/m", "openai/*", "anthropic/a", "anthropic/b/c"] },
    )
    expect(config["enabled_providers"]).toEqual([
      "mine",
      "openai",
      "anthropic",
      "sandpiper-warm-up",
    ])
    expect(config["provider"]).toMatchObject({
      mine: { whitelist: ["m"], name: "Mine" },
      anthropic: { whitelist: ["a", "b/c"] },
    })
    expect(config["provider"]).not.toHaveProperty("openai")
  })

  test("ask for permissions when these are relayed", () => {
    expect(compose({}, { permissions: "relay" }).config["permission"]).toMatchObject({
      bash: "ask",
      edit: "ask",
      external_directory: "ask",
    })
  })

  test.each<[string, RuntimeConfig, string]>([
    ["an id with a space", { providerKeys: { "a b": "k" } }, '"a b"'],
    ["an empty key", { providerKeys: { openai: "" } }, "key of openai"],
    ["a key with a line break", { providerKeys: { openai: "a\nb" } }, "key of openai"],
    [
      "no http URL",
      { customProviders: [{ ...provider, baseUrl: "file:///x", models: [{ id: "m" }] }] },
      "http",
    ],
    ["an MCP server with an odd name", { mcpServers: { "a b": local(["x"]) } }, '"a b"'],
    ["an MCP server without a command", { mcpServers: { files: local([]) } }, "server files"],
    ["a zero byte in a command", { mcpServers: { files: local(["x", "a\0b"]) } }, "zero byte"],
    [
      "an MCP server at no http URL",
      { mcpServers: { web: { type: "remote", url: "unix:/x" } } },
      "server web: url",
    ],
    [
      "a header that is none",
      { mcpServers: { web: { type: "remote", url: "http://x", headers: { "a b": "c" } } } },
      '"a b" is not a header',
    ],
    ["no model", { customProviders: [{ ...provider, models: [] }] }, "no model"],
    [
      "a model twice",
      { customProviders: [{ ...provider, models: [{ id: "m" }, { id: "m" }] }] },
      "twice",
    ],
    [
      "a model without a name",
      { customProviders: [{ ...provider, models: [{ id: " " }] }] },
      "without an id",
    ],
    ["a tool with a slash", { tools: { "../x": true } }, '"../x"'],
    ["a book of instructions", { instructions: ["x".repeat(300_000)] }, "256 KiB"],
  ])("with %s are refused, with the reason", (_name, runtime, words) => {
    expect(() => compose(runtime)).toThrow(SettingsError)
    expect(() => compose(runtime)).toThrow(words)
  })

  test("name a problem without telling the key", () => {
    expect(() => compose({ providerKeys: { openai: "secret key" } })).not.toThrow("secret key")
  })
})

test("a partial keeps what it does not name", () => {
  const known = { tools: { a: true }, instructions: ["x"] }
  expect(mergeRuntime(known, { instructions: ["y"] })).toEqual({
    tools: { a: true },
    instructions: ["y"],
  })
})

describe("the agent's environment", () => {
  const own = new Set(["RUNNER_TOKEN", "JWT_SECRET"])
  const environment = {
    PATH: "/bin",
    LC_ALL: "C",
    GIT_AUTHOR_NAME: "A",
    RUNNER_TOKEN: "r",
    JWT_SECRET: "j",
    OTHER: "o",
    WANTED: "w",
    https_proxy: "p",
    EMPTY: undefined,
  }

  test("is a list of what passes", () => {
    expect(agentEnvironment({ environment, allow: ["WANTED"], own })).toEqual({
      PATH: "/bin",
      LC_ALL: "C",
      GIT_AUTHOR_NAME: "A",
      WANTED: "w",
      https_proxy: "p",
    })
  })

  test("says where the image's browser is, and none of the browser's keys", () => {
    const browser = {
      AGENT_BROWSER_EXECUTABLE_PATH: "/usr/bin/chromium",
      AGENT_BROWSER_ENCRYPTION_KEY: "k",
    }
    expect(agentEnvironment({ environment: browser, allow: [], own })).toEqual({
      AGENT_BROWSER_EXECUTABLE_PATH: "/usr/bin/chromium",
    })
  })

  test("never holds what is the runner's own, whoever allows it", () => {
    const passed = agentEnvironment({ environment, allow: ["RUNNER_TOKEN", "JWT_SECRET"], own })
    expect(passed).not.toHaveProperty("RUNNER_TOKEN")
    expect(passed).not.toHaveProperty("JWT_SECRET")
  })
})
