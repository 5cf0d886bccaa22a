/** Composing OpenCode's config: what is merged, what is refused, and the agent's environment. */
import { describe, expect, test } from "bun:test"
import { agentEnvironment } from "../../../../src/runner/opencode/launch/environment.ts"
import {
  composeConfig,
  mergeConfig,
  type RuntimeConfig,
  ConfigError,
} from "../../../../src/runner/opencode/config/compose-config.ts"

const compose = (runtime: RuntimeConfig, more: Partial<Parameters<typeof composeConfig>[0]> = {}) =>
  composeConfig({
    base: { share: "disabled", permission: { "*": "allow" }, tools: { websearch: false } },
    runtime,
    environment: {},
    permissions: "allow",
    allowedModels: undefined,
    fixedInstructionFiles: [],
    instructionsFile: "/state/session.md",
    ...more,
  })

const warmUp: unknown = expect.objectContaining({ name: "Warm-up (not a real provider)" })
const provider = { providerId: "mine", displayName: "Mine", baseUrl: "http://x/v1", apiKey: "k-1" }

const local = (command: string[]) => ({ type: "local" as const, command })

describe("OpenCode's config", () => {
  test("an empty configuration gives the base config", () => {
    expect(compose({})).toEqual({
      opencodeJson: {
        share: "disabled",
        permission: { "*": "allow", websearch: "deny" },
        provider: { "sandpiper-warm-up": warmUp },
      },
      auth: {},
      instructions: "",
    })
  })

  test("the session agent's instructions become a file that the config names", () => {
    const { opencodeJson, instructions } = compose(
      { instructions: ["Be brief.", "Be kind."] },
      { fixedInstructionFiles: ["/state/always.md"] },
    )
    expect(opencodeJson["instructions"]).toEqual(["/state/always.md", "/state/session.md"])
    expect(instructions).toBe("Be brief.\n\nBe kind.\n")
  })

  test("tools, providers and keys are added, and the session agent's key overrides the environment's", () => {
    const { opencodeJson, auth } = compose(
      {
        tools: { webfetch: false },
        providerKeys: { openai: "from-session" },
        customProviders: [
          { ...provider, models: [{ id: "m", contextLimit: 1000, inputs: ["text", "image"] }] },
        ],
      },
      { environment: { OPENAI_API_KEY: "from-env", ANTHROPIC_API_KEY: "a" } },
    )
    expect(opencodeJson["permission"]).toEqual({
      "*": "allow",
      websearch: "deny",
      webfetch: "deny",
    })
    expect(opencodeJson["provider"]).toEqual({
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

  test("tools that are off are denied after all other rules, even if the session agent enables them", () => {
    const { opencodeJson } = compose(
      { tools: { parallel_web_search: true, bash: true } },
      { hiddenTools: ["parallel_*"], permissions: "relay" },
    )
    expect(Object.keys(opencodeJson["permission"] as object).slice(-2)).toEqual([
      "websearch",
      "parallel_*",
    ])
    expect(opencodeJson["tools"]).toEqual({ parallel_web_search: true, bash: true })
  })

  test("provider keys are written to auth.json only", () => {
    const { opencodeJson } = compose({
      providerKeys: { openai: "a-key" },
      customProviders: [{ ...provider, models: [{ id: "m" }] }],
    })
    expect(JSON.stringify(opencodeJson)).not.toContain("a-key")
    expect(JSON.stringify(opencodeJson)).not.toContain("k-1")
  })

  test("MCP servers are added to the base config, each with a start timeout", () => {
    const { opencodeJson } = compose(
      {
        mcpServers: {
          notes: { type: "local", command: ["notes", "--stdio"], environment: { A: "1" } },
          search: { type: "remote", url: "https://mcp.example/", headers: { "x-key": "k" } },
        },
      },
      { base: { mcp: { old: { type: "local", command: ["old"] } } } },
    )
    expect(opencodeJson["mcp"]).toEqual({
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

  test("a list of allowed models limits providers and models", () => {
    const { opencodeJson } = compose(
      { customProviders: [{ ...provider, models: [{ id: "m" }] }] },
      { allowedModels: ["mine/m", "openai/*", "anthropic/a", "anthropic/b/c"] },
    )
    expect(opencodeJson["enabled_providers"]).toEqual([
      "mine",
      "openai",
      "anthropic",
      "sandpiper-warm-up",
    ])
    expect(opencodeJson["provider"]).toMatchObject({
      mine: { whitelist: ["m"], name: "Mine" },
      anthropic: { whitelist: ["a", "b/c"] },
    })
    expect(opencodeJson["provider"]).not.toHaveProperty("openai")
  })

  test("relayed permissions make OpenCode ask", () => {
    expect(compose({}, { permissions: "relay" }).opencodeJson["permission"]).toMatchObject({
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
      "a provider URL that is not http",
      { customProviders: [{ ...provider, baseUrl: "file:///x", models: [{ id: "m" }] }] },
      "http",
    ],
    ["an invalid MCP server name", { mcpServers: { "a b": local(["x"]) } }, '"a b"'],
    ["an MCP server without a command", { mcpServers: { files: local([]) } }, "server files"],
    ["a zero byte in a command", { mcpServers: { files: local(["x", "a\0b"]) } }, "zero byte"],
    [
      "an MCP server URL that is not http",
      { mcpServers: { web: { type: "remote", url: "unix:/x" } } },
      "server web: url",
    ],
    [
      "an invalid header name",
      { mcpServers: { web: { type: "remote", url: "http://x", headers: { "a b": "c" } } } },
      '"a b" is not a valid header name',
    ],
    ["a provider without a model", { customProviders: [{ ...provider, models: [] }] }, "no model"],
    [
      "a model twice",
      { customProviders: [{ ...provider, models: [{ id: "m" }, { id: "m" }] }] },
      "twice",
    ],
    [
      "a model without an id",
      { customProviders: [{ ...provider, models: [{ id: " " }] }] },
      "without an id",
    ],
    ["a tool with a slash", { tools: { "../x": true } }, '"../x"'],
    ["instructions over 256 KiB", { instructions: ["x".repeat(300_000)] }, "256 KiB"],
  ])("a configuration with %s is refused with the reason", (_name, runtime, reason) => {
    expect(() => compose(runtime)).toThrow(ConfigError)
    expect(() => compose(runtime)).toThrow(reason)
  })

  test("the error for an invalid key does not contain the key", () => {
    expect(() => compose({ providerKeys: { openai: "secret key" } })).not.toThrow("secret key")
  })
})

test("a partial configuration keeps the fields that it does not have", () => {
  const known = { tools: { a: true }, instructions: ["x"] }
  expect(mergeConfig(known, { instructions: ["y"] })).toEqual({
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
    ALLOWED: "w",
    https_proxy: "p",
    EMPTY: undefined,
  }

  test("only allowed variables are passed to the agent", () => {
    expect(agentEnvironment({ environment, allow: ["ALLOWED"], own })).toEqual({
      PATH: "/bin",
      LC_ALL: "C",
      GIT_AUTHOR_NAME: "A",
      ALLOWED: "w",
      https_proxy: "p",
    })
  })

  test("the path of the image's browser is passed to the agent, and the browser's keys are not", () => {
    const browser = {
      AGENT_BROWSER_EXECUTABLE_PATH: "/usr/bin/chromium",
      AGENT_BROWSER_ENCRYPTION_KEY: "k",
    }
    expect(agentEnvironment({ environment: browser, allow: [], own })).toEqual({
      AGENT_BROWSER_EXECUTABLE_PATH: "/usr/bin/chromium",
    })
  })

  test("the runner's own variables are never passed to the agent, even if they are allowed", () => {
    const passed = agentEnvironment({ environment, allow: ["RUNNER_TOKEN", "JWT_SECRET"], own })
    expect(passed).not.toHaveProperty("RUNNER_TOKEN")
    expect(passed).not.toHaveProperty("JWT_SECRET")
  })
})
