/** Converts the session agent's MCP servers to OpenCode's config, and checks them. Pure. */
import { type Service, SERVICE_HEADER } from "../../broker/services.ts"
import { isWebUrl } from "../../../lib/web-url.ts"
import type { Inbound } from "../../../wire/frames/index.ts"

export type McpServers = NonNullable<Inbound<"opencode-config">["config"]["mcpServers"]>
type McpServer = McpServers[string]

/** The first prompt waits for every server's tools: this limits the wait for a server that never responds. */
const START_TIMEOUT_MS = 10_000

export interface McpConfig {
  /** The section `mcp` of OpenCode's config. */
  readonly servers: Readonly<Record<string, unknown>>
  /** What the key broker must know: the addresses and headers of servers with a credential. */
  readonly services: Readonly<Record<string, Service>>
}

interface BrokerAddress {
  readonly origin: string
  readonly token: string
}

export const mcpConfig = (servers: McpServers, broker: BrokerAddress): McpConfig => {
  const services: Record<string, Service> = {}
  const configOf = (name: string, server: McpServer): object => {
    const common = { enabled: true, timeout: START_TIMEOUT_MS }
    if (server.type !== "remote") return { ...server, ...common }
    // No person can sign in from a sandbox, so only servers that accept their headers are supported.
    const remote = { ...server, ...common, oauth: false }
    const service = serviceOf(server)
    if (!service) return remote
    const key = `mcp:${name}`
    services[key] = service
    return {
      ...remote,
      url: `${broker.origin}${new URL(service.url).pathname}`,
      headers: { authorization: `Bearer ${broker.token}`, [SERVICE_HEADER]: key },
    }
  }
  const configured = Object.entries(servers).map(([name, server]) => [name, configOf(name, server)])
  return { servers: Object.fromEntries(configured), services }
}

/** Undefined for a server without a credential in its headers or its address: OpenCode calls it directly. */
const serviceOf = (
  server: Extract<McpServer, { readonly type: "remote" }>,
): Service | undefined => {
  const url = new URL(server.url)
  const { username, password } = url
  const basic =
    username === "" ? {} : { authorization: `Basic ${btoa(loginOf(username, password))}` }
  const headers = { ...basic, ...server.headers }
  if (Object.keys(headers).length === 0 && url.search === "") return undefined
  url.username = ""
  url.password = ""
  return { url: url.href, headers, calls: "mcp" }
}

const loginOf = (username: string, password: string): string =>
  `${decodeURIComponent(username)}:${decodeURIComponent(password)}`

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
