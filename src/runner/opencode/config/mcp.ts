/** Converts the session agent's MCP servers to OpenCode's config, and checks them. Pure. */
import { isWebUrl } from "../../../lib/web-url.ts"
import type { Inbound } from "../../../wire/frames/index.ts"

export type McpServers = NonNullable<Inbound<"opencode-config">["config"]["mcpServers"]>
type McpServer = McpServers[string]

/** The first prompt waits for every server's tools: this limits the wait for a server that never responds. */
const START_TIMEOUT_MS = 10_000

export const mcpConfig = (servers: McpServers): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(servers).map(([name, server]) => [
      name,
      // No person can sign in from a sandbox, so only servers that accept their headers are supported.
      {
        ...server,
        enabled: true,
        timeout: START_TIMEOUT_MS,
        ...("url" in server && { oauth: false }),
      },
    ]),
  )

/** Header and environment values, which must not appear in a log. */
export const mcpSecrets = (servers: McpServers): readonly string[] =>
  Object.values(servers).flatMap((server) =>
    Object.values((server.type === "remote" ? server.headers : server.environment) ?? {}),
  )

/** The name is the prefix of its tools' names, for which models accept only these characters. */
const NAME = /^[A-Za-z0-9][\w-]{0,31}$/

export const mcpProblems = (servers: McpServers): readonly string[] =>
  Object.entries(servers).flatMap(([name, server]) =>
    NAME.test(name)
      ? problemsOf(server).map((problem) => `MCP server ${name}: ${problem}`)
      : [`"${name}" is not a valid MCP server name`],
  )

const problemsOf = (server: McpServer): readonly string[] => {
  if (server.type === "remote") {
    return [
      ...(isWebUrl(server.url) ? [] : ["url must be an http or https URL"]),
      ...Object.entries(server.headers ?? {}).flatMap(([header, value]) =>
        isHeader(header, value)
          ? []
          : [`"${header}" is not a valid header name or has an invalid value`],
      ),
    ]
  }
  const strings = [...server.command, ...Object.entries(server.environment ?? {}).flat()]
  return [
    ...(server.command[0] ? [] : ["its command is empty"]),
    ...(strings.some((text) => text.includes("\0"))
      ? ["its command or environment has a zero byte"]
      : []),
  ]
}

/** The name is an HTTP token; the value has visible characters, spaces and tabs only. */
const isHeader = (name: string, value: string): boolean =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
