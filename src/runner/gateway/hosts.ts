/**
 * Which host a request is for, where one port serves the page and the sandbox: the page's host, the box (editor, screen,
 * terminal, API), or a tunnel's own host. Any other name is refused, because a website may resolve its own name to this
 * machine (DNS rebinding). Pure.
 */

export interface PageOrigins {
  /** The origin of the page, such as `http://sandpiper.localhost`. */
  readonly page: string
  /** The origin of tunnels, with `*` for the name, such as `http://*--box.sandpiper.localhost`. */
  readonly tunnels: string
  /** The public address of the gateway, if it has one: its host is the box too. */
  readonly publicUrl?: string | undefined
}

export type HostKind = "page" | "box" | "tunnel" | "unknown"

const IP_ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/
const TUNNEL_MARK = "*--"

/** The origin that serves what is not a tunnel: that of the tunnels without their names. */
export const boxOrigin = (tunnels: string): string => tunnels.replace(TUNNEL_MARK, "")

/** The ports are not compared: a container's port may have another number outside. */
export const hostKind = (host: string, origins: PageOrigins): HostKind => {
  const name = nameOf(host)
  const page = nameOfOrigin(origins.page)
  if (name === page || (name === "localhost" && isLocalName(page))) return "page"
  const box = nameOfOrigin(boxOrigin(origins.tunnels))
  // No website can use an address as its name. A request without Host does not come from a browser.
  if (name === "" || name === box || IP_ADDRESS.test(name)) return "box"
  if (origins.publicUrl !== undefined && name === nameOfOrigin(origins.publicUrl)) return "box"
  return name.endsWith(`--${box}`) ? "tunnel" : "unknown"
}

const isLocalName = (name: string): boolean => name.endsWith(".localhost")

/** Names below `localhost` are on the machine of the client, with the port that the client has used. */
export const originFor = (origin: string, host: string): string => {
  const port = /:(\d{1,5})$/.exec(host)?.[1]
  const isOpen = isLocalName(nameOfOrigin(origin)) && !/:\d+$/.test(origin)
  return isOpen && port !== undefined ? `${origin}:${port}` : origin
}

/** The origins that the page may show in frames, for a client that has used this host. */
export const frameSources = ({ tunnels }: PageOrigins, host: string): readonly string[] => {
  const box = originFor(boxOrigin(tunnels), host)
  // A policy can only leave out whole labels of a host, so this is every host beside the box.
  const beside = originFor(tunnels.replace(/\*--[^.:/]+/, "*"), host)
  const local = isLocalName(nameOfOrigin(box)) ? [originFor("http://127.0.0.1", host)] : []
  const port = /:\d+$/.exec(box)?.[0] ?? ""
  return [box, beside, ...local.map((origin) => `${origin}${port}`)]
}

const nameOf = (host: string): string => host.toLowerCase().replace(/:\d{1,5}$/, "")

const nameOfOrigin = (origin: string): string =>
  nameOf(origin.replace(/^[a-z]+:\/\//i, "").replace(/\/.*$/, ""))
