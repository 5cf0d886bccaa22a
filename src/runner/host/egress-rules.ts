/** The egress policy: which hosts the agent may reach, and how a refusal is reported. Pure. */

/** `example.com`, `*.example.com` (names below it, not itself), or either with `:port`. */
export type EgressHost = string

export const isAllowed = (hosts: readonly EgressHost[], host: string, port: number): boolean =>
  hosts.some((entry) => matches(entry.toLowerCase(), plain(host), port))

const matches = (entry: string, host: string, port: number): boolean => {
  const [, name = "", wanted] = /^(.*?)(?::(\d+))?$/.exec(entry) ?? []
  if (wanted !== undefined && !entry.endsWith("]") && Number(wanted) !== port) return false
  const allowed = plain(entry.endsWith("]") ? entry : name)
  return allowed.startsWith("*.") ? host.endsWith(allowed.slice(1)) : host === allowed
}

/** Lower case, without brackets and without the dot of a full name. */
const plain = (host: string): string =>
  host
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "")

export interface ProxyRequest {
  readonly method: string
  readonly host: string
  readonly port: number
  /** The head for the server itself; empty for CONNECT. */
  readonly head: string
  /** The head for another proxy on the way. */
  readonly proxyHead: string
}

/** Undefined if the head is not a request to a proxy. `head` is without the empty line at its end. */
export const readProxyRequest = (head: string): ProxyRequest | undefined => {
  const [first = "", ...lines] = head.split("\r\n")
  const [method = "", target = "", version = "", ...more] = first.split(" ")
  if (more.length > 0 || !/^HTTP\/1\.[01]$/.test(version) || !/^[A-Z]+$/.test(method))
    return undefined
  const kept = lines.filter((line) => !/^(proxy-[\w-]+|connection|keep-alive)\s*:/i.test(line))
  if (kept.some((line) => !/^[!#$%&'*+.^`|~\w-]+:/.test(line))) return undefined
  if (method === "CONNECT") {
    const [, host = "", port = ""] = /^(\[[0-9a-f:]+\]|[\w.-]+):(\d{1,5})$/i.exec(target) ?? []
    if (host === "" || Number(port) > 65_535) return undefined
    return {
      method,
      host,
      port: Number(port),
      head: "",
      proxyHead: `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n`,
    }
  }
  if (!/^http:\/\//i.test(target) || !URL.canParse(target)) return undefined
  const { hostname, port, pathname, search, host } = new URL(target)
  const rest = kept.filter((line) => !/^host\s*:/i.test(line))
  const fields = ["", `Host: ${host}`, ...rest, "Connection: close", ""].join("\r\n")
  return {
    method,
    host: hostname,
    port: Number(port || 80),
    head: `${method} ${pathname}${search} HTTP/1.1${fields}\r\n`,
    proxyHead: `${method} http://${host}${pathname}${search} HTTP/1.1${fields}`,
  }
}

const MOST_NOTICES = 20

/** The text for the conversation at a host's first refusal; undefined for a repeated one and after twenty hosts. */
export const refusalNotice = (
  known: ReadonlySet<string>,
  host: string,
  port: number,
): string | undefined => {
  if (known.has(host) || known.size > MOST_NOTICES) return undefined
  if (known.size === MOST_NOTICES)
    return "The sandbox has refused connections to more hosts. The runner's log names them."
  return `The sandbox has refused a connection of the agent to ${plain(host).slice(0, 120)}:${port}: its network policy does not allow this host. An operator can add it to SANDBOX_EGRESS_HOSTS.`
}

/** Makes programs use the proxy. Addresses of this machine are reached directly. */
export const proxyVariables = (url: string): Readonly<Record<string, string>> => {
  const direct = "127.0.0.1,localhost,::1"
  return Object.fromEntries([
    ...["http_proxy", "https_proxy", "all_proxy"].flatMap((name) => [
      [name, url],
      [name.toUpperCase(), url],
    ]),
    ["no_proxy", direct],
    ["NO_PROXY", direct],
  ])
}
