/** MCP servers, as the session agent names them and as OpenCode's configuration does. Pure. */
import { isWebUrl } from "../../../lib/web-url.ts"
import type { Inbound } from "../../../wire/frames/index.ts"

export type McpServers = NonNullable<Inbound<"opencode-config">["config"]["mcpServers"]>
type McpServer = McpServers[string]

/** The first prompt waits for every server's tools: one that never answers may hold it up no longer than this. */
const START_MS = 10_000

export const mcpSettings = (servers: McpServers): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(servers).map(([name, server]) => [
      name,
      // Nobody is at the machine to sign in: a server that wants more than its headers is out of reach.
      { ...server, enabled: true, timeout: START_MS, ...("url" in server && { oauth: false }) },
    ]),
  )

/** What a log must not show: whatever is sent along or handed over. */
export const mcpSecrets = (servers: McpServers): readonly string[] =>
  Object.values(servers).flatMap((server) =>
    Object.values((server.type === "remote" ? server.headers : server.environment) ?? {}),
  )

/** The name is the beginning of its tools' names, which models take only of these. */
const NAME = /^[A-Za-z0-9][\w-]{0,31}$/

export const mcpProblems = (servers: McpServers): readonly string[] =>
  Object.entries(servers).flatMap(([name, server]) =>
    NAME.test(name)
      ? problemsOf(server).map((problem) => `MCP server ${name}: ${problem}`)
      : [`"${name}" is not an MCP server's name`],
  )

const problemsOf = (server: McpServer): readonly string[] => {
  if (server.type === "remote") {
    return [
      ...(isWebUrl(server.url) ? [] : ["url must be an http or https URL"]),
      ...Object.entries(server.headers ?? {}).flatMap(([header, value]) =>
        isHeader(header, value) ? [] : [`"${header}" is not a header, or its value is not one`],
      ),
    ]
  }
  const words = [...server.command, ...Object.entries(server.environment ?? {}).flat()]
  return [
    ...(server.command[0] ? [] : ["its command is empty"]),
    ...(words.some((word) => word.includes("\0")) ? ["a word of it has a zero byte"] : []),
  ]
}

/** A token, and a value of visible characters, spaces and tabs: what no client would send, no server would see. */
const isHeader = (name: string, value: string): boolean =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
