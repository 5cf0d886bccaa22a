/** Composing OpenCode's config: what is merged, what is refused, and the agent's environment. */
import { describe, expect, test } from "bun:test"
import { agentEnvironment } from "../../../../src/settings/reaches.ts"
import { knownProviders } from "../../../../src/runner/broker/upstreams.ts"
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
    broker: { origin: "http://127.0.0.1:7", token: "broker-token" },
    providerAddresses: knownProviders,
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
      upstreams: {},
      services: {},
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
    const { opencodeJson, auth, upstreams } = compose(
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
      openai: { options: { baseURL: "http://127.0.0.1:7/openai" } },
      anthropic: { options: { baseURL: "http://127.0.0.1:7/anthropic" } },
      mine: {
        npm: "@ai-sdk/openai-compatible",
        name: "Mine",
        options: { baseURL: "http://127.0.0.1:7/mine" },
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
    expect(upstreams).toEqual({
      openai: { baseUrl: "https://api.openai.com/v1", auth: "bearer", key: "from-session" },
      anthropic: { baseUrl: "https://api.anthropic.com/v1", auth: "x-api-key", key: "a" },
      mine: { baseUrl: "http://x/v1", auth: "bearer", key: "k-1" },
    })
    const token = { type: "api", key: "broker-token" } as const
    expect(auth).toEqual({ openai: token, anthropic: token, mine: token })
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

  test("provider keys are in neither opencode.json nor auth.json, wherever they come from", () => {
    const { opencodeJson, auth, upstreams } = compose(
      {
        providerKeys: { openai: "a-key" },
        customProviders: [{ ...provider, models: [{ id: "m" }] }],
      },
      {
        environment: { ANTHROPIC_API_KEY: "an-env-key" },
        base: {
          provider: { groq: { name: "Ours", options: { apiKey: "a-base-key", timeout: 5 } } },
        },
      },
    )
    const written = JSON.stringify([opencodeJson, auth])
    for (const { key } of Object.values(upstreams)) expect(written).not.toContain(`"${key}"`)
    expect(Object.values(upstreams).map(({ key }) => key)).toEqual([
      "a-base-key",
      "an-env-key",
      "a-key",
      "k-1",
    ])
    expect(opencodeJson["provider"]).toMatchObject({
      groq: { name: "Ours", options: { timeout: 5, baseURL: "http://127.0.0.1:7/groq" } },
    })
  })

  test("a base config's address of a provider is the broker's upstream", () => {
    const { upstreams } = compose(
      { providerKeys: { openai: "k" } },
      { base: { provider: { openai: { options: { baseURL: "https://proxy.example/v1" } } } } },
    )
    expect(upstreams["openai"]?.baseUrl).toBe("https://proxy.example/v1")
  })

  test("a custom provider without a key goes through the broker without one", () => {
    const { upstreams, auth } = compose({
      customProviders: [{ ...provider, apiKey: "", models: [{ id: "m" }] }],
    })
    expect(upstreams["mine"]).toEqual({ baseUrl: "http://x/v1", auth: "bearer" })
    expect(auth["mine"]?.key).toBe("broker-token")
  })

  test("MCP servers are added to the base config, each with a start timeout", () => {
    const { opencodeJson, services } = compose(
      {
        mcpServers: {
          notes: { type: "local", command: ["notes", "--stdio"], environment: { A: "1" } },
          search: {
            type: "remote",
            url: "https://user:pass@mcp.example/mcp?tenant=7",
            headers: { "x-key": "k" },
          },
          open: { type: "remote", url: "https://open.example/mcp" },
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
        url: "http://127.0.0.1:7/mcp",
        headers: { authorization: "Bearer broker-token", "x-sandpiper-service": "mcp:search" },
        enabled: true,
        timeout: 10_000,
        oauth: false,
      },
      open: {
        type: "remote",
        url: "https://open.example/mcp",
        enabled: true,
        timeout: 10_000,
        oauth: false,
      },
    })
    expect(services).toEqual({
      "mcp:search": {
        url: "https://mcp.example/mcp?tenant=7",
        headers: { authorization: `Basic ${btoa("user:pass")}`, "x-key": "k" },
        calls: "mcp",
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
    [
      "the key of a provider without a known address",
      { providerKeys: { unheard: "k" } },
      "custom provider with a baseUrl",
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
    expect(agentEnvironment(environment, ["ALLOWED"])).toEqual({
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
    expect(agentEnvironment(browser, [])).toEqual({
      AGENT_BROWSER_EXECUTABLE_PATH: "/usr/bin/chromium",
    })
  })

  test("the runner's own variables are never passed to the agent, even if they are allowed", () => {
    const passed = agentEnvironment(environment, ["RUNNER_TOKEN", "JWT_SECRET"])
    expect(passed).not.toHaveProperty("RUNNER_TOKEN")
    expect(passed).not.toHaveProperty("JWT_SECRET")
  })
})
