/** Named ports that the agent serves to people: stored across restarts and announced to the session agent. */
import { z } from "zod"

const protocols = ["http", "ws", "auto"] as const

export interface Tunnel {
  readonly name: string
  readonly port: number
  readonly protocol: (typeof protocols)[number]
}

export interface TunnelsOptions {
  /** Reads and writes the stored tunnels. */
  readonly load: () => string | undefined
  readonly save: (text: string) => void
  /** Ports that no tunnel may use, with their owner. Read each time, because some are known late. */
  readonly reserved: () => ReadonlyMap<number, string>
  readonly announce: (tunnels: readonly AnnouncedTunnel[]) => void
  /** The ports on which something listens; undefined if that is not known. */
  readonly listeningPorts?: (() => ReadonlySet<number> | undefined) | undefined
}

export interface AnnouncedTunnel extends Tunnel {
  readonly path: string
  /** Something listens on the port; absent if that is not known. */
  readonly listening?: boolean
}

export interface TunnelRefusal {
  /** For the caller. */
  readonly reason: string
}

export interface Tunnels {
  readonly register: (tunnel: Tunnel) => TunnelRefusal | undefined
  /** False if there is no tunnel of this name. */
  readonly remove: (name: string) => boolean
  readonly find: (name: string) => Tunnel | undefined
  /** The tunnel named by a host such as `<name>--sandbox.example.com`. */
  readonly findByHost: (host: string) => Tunnel | undefined
  readonly list: () => readonly Tunnel[]
  /** Sends the whole list to the session agent, changed or not. */
  readonly announce: () => void
  /** Announces the list again if a server has started or stopped to listen since. */
  readonly checkListening: () => void
}

const MOST_TUNNELS = 64

const storedTunnels = z.array(
  z.object({
    name: z.string().regex(/^[A-Za-z0-9_-]{1,32}$/),
    port: z.int().min(1).max(65_535),
    protocol: z.enum(protocols),
  }),
)

export const createTunnels = ({
  load,
  save,
  reserved,
  announce,
  listeningPorts = () => undefined,
}: TunnelsOptions): Tunnels => {
  const tunnels = new Map(readStored(load()).map((tunnel) => [tunnel.name, tunnel]))

  const list = () => [...tunnels.values()].filter(({ port }) => !reserved().has(port))
  /** The names of the announced tunnels whose server listens. */
  let announcedAs = ""
  const describe = (): readonly AnnouncedTunnel[] => {
    const ports = tunnels.size === 0 ? undefined : listeningPorts()
    return list().map((tunnel) => ({
      ...tunnel,
      path: pathOf(tunnel.name),
      ...(ports && { listening: ports.has(tunnel.port) }),
    }))
  }
  const listeningNames = (all: readonly AnnouncedTunnel[]): string =>
    all.flatMap(({ name, listening }) => (listening === true ? [name] : [])).join(" ")
  const announceAll = () => {
    const all = describe()
    announcedAs = listeningNames(all)
    announce(all)
  }
  const saveAndAnnounce = () => {
    save(JSON.stringify([...tunnels.values()]))
    announceAll()
  }
  const usable = (tunnel: Tunnel | undefined) =>
    tunnel && !reserved().has(tunnel.port) ? tunnel : undefined

  return {
    register: (tunnel) => {
      const owner = reserved().get(tunnel.port)
      if (owner !== undefined) {
        return { reason: `port ${tunnel.port} belongs to ${owner}: choose another` }
      }
      if (!tunnels.has(tunnel.name) && tunnels.size >= MOST_TUNNELS) {
        return { reason: `there are ${MOST_TUNNELS} tunnels already: unregister one first` }
      }
      const known = tunnels.get(tunnel.name)
      tunnels.set(tunnel.name, tunnel)
      if (known?.port !== tunnel.port || known.protocol !== tunnel.protocol) saveAndAnnounce()
      return undefined
    },
    remove: (name) => {
      const wasThere = tunnels.delete(name)
      if (wasThere) saveAndAnnounce()
      return wasThere
    },
    find: (name) => usable(tunnels.get(name)),
    findByHost: (host) => {
      if (tunnels.size === 0 || !host.includes("--")) return undefined
      const label = (host.split(".", 1)[0] ?? "").toLowerCase()
      const named = [...tunnels.values()].filter(({ name }) =>
        label.startsWith(`${name.toLowerCase()}--`),
      )
      return usable(named.toSorted((a, b) => b.name.length - a.name.length)[0])
    },
    list,
    announce: announceAll,
    checkListening: () => {
      if (tunnels.size > 0 && listeningNames(describe()) !== announcedAs) announceAll()
    },
  }
}

export const pathOf = (name: string): string => `/t/${name}`

/** Unreadable tunnels are discarded: they are easily registered again, and the runner must start. */
const readStored = (text: string | undefined): readonly Tunnel[] => {
  if (text === undefined) return []
  try {
    return storedTunnels.parse(JSON.parse(text))
  } catch {
    return []
  }
}
