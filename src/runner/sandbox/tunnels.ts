/** The ports that the agent serves to people: named, remembered across restarts, told to the session agent. */
import { z } from "zod"

const protocols = ["http", "ws", "auto"] as const

export interface Tunnel {
  readonly name: string
  readonly port: number
  readonly protocol: (typeof protocols)[number]
}

export interface TunnelsOptions {
  /** What was remembered, if anything; and where to remember. */
  readonly load: () => string | undefined
  readonly save: (text: string) => void
  /** Ports that are served otherwise or must not be: asked each time, since some are known late. */
  readonly reserved: () => ReadonlyMap<number, string>
  readonly announce: (tunnels: readonly (Tunnel & { readonly path: string })[]) => void
}

/** `what` is told to the caller. */
export type TunnelRefusal = { readonly refused: string }

export interface Tunnels {
  readonly register: (tunnel: Tunnel) => TunnelRefusal | undefined
  /** False when there is none of this name. */
  readonly remove: (name: string) => boolean
  readonly find: (name: string) => Tunnel | undefined
  /** The tunnel that a host such as `<name>--sandbox.example.com` names. */
  readonly findByHost: (host: string) => Tunnel | undefined
  readonly list: () => readonly Tunnel[]
  /** Tells the whole list, changed or not. */
  readonly announce: () => void
}

const MOST_TUNNELS = 64

const remembered = z.array(
  z.object({
    name: z.string().regex(/^[A-Za-z0-9_-]{1,32}$/),
    port: z.int().min(1).max(65_535),
    protocol: z.enum(protocols),
  }),
)

export const createTunnels = ({ load, save, reserved, announce }: TunnelsOptions): Tunnels => {
  const tunnels = new Map(readRemembered(load()).map((tunnel) => [tunnel.name, tunnel]))

  const list = () => [...tunnels.values()].filter(({ port }) => !reserved().has(port))
  const tell = () => announce(list().map((tunnel) => ({ ...tunnel, path: pathOf(tunnel.name) })))
  const changed = () => {
    save(JSON.stringify([...tunnels.values()]))
    tell()
  }
  const usable = (tunnel: Tunnel | undefined) =>
    tunnel && !reserved().has(tunnel.port) ? tunnel : undefined

  return {
    register: (tunnel) => {
      const holder = reserved().get(tunnel.port)
      if (holder !== undefined) {
        return { refused: `port ${tunnel.port} belongs to ${holder}: choose another` }
      }
      if (!tunnels.has(tunnel.name) && tunnels.size >= MOST_TUNNELS) {
        return { refused: `there are ${MOST_TUNNELS} tunnels already: unregister one first` }
      }
      const known = tunnels.get(tunnel.name)
      tunnels.set(tunnel.name, tunnel)
      if (known?.port !== tunnel.port || known.protocol !== tunnel.protocol) changed()
      return undefined
    },
    remove: (name) => {
      const was = tunnels.delete(name)
      if (was) changed()
      return was
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
    announce: tell,
  }
}

export const pathOf = (name: string): string => `/t/${name}`

/** What cannot be read is forgotten: tunnels are made again in a moment, a runner that does not start is worse. */
const readRemembered = (text: string | undefined): readonly Tunnel[] => {
  if (text === undefined) return []
  try {
    return remembered.parse(JSON.parse(text))
  } catch {
    return []
  }
}
