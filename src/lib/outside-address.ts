/**
 * Which addresses the runner connects to on behalf of others: none of this machine, none of its local link, and no metadata
 * service of a cloud. Other addresses of a private network count as outside.
 */
import { lookup } from "node:dns/promises"
import { BlockList, isIP } from "node:net"
import { networkInterfaces } from "node:os"

const inside = new BlockList()
for (const [network, bits] of [
  ["0.0.0.0", 8],
  ["127.0.0.0", 8],
  // Link-local: also the metadata service of cloud machines.
  ["169.254.0.0", 16],
  // Further metadata services: of Azure, Alibaba and Oracle.
  ["168.63.129.16", 32],
  ["100.100.100.200", 32],
  ["192.0.0.192", 32],
] as const) {
  inside.addSubnet(network, bits, "ipv4")
}
for (const [network, bits] of [
  ["::", 127],
  ["fe80::", 10],
  // Metadata services of Amazon and Google.
  ["fd00:ec2::254", 128],
  ["fd20:ce::254", 128],
  // What a gateway between IPv6 and IPv4 makes of the first three above.
  ["64:ff9b::", 104],
  ["64:ff9b::7f00:0", 104],
  ["64:ff9b::a9fe:0", 112],
] as const) {
  inside.addSubnet(network, bits, "ipv6")
}

/** The addresses of this machine's interfaces now: its servers listen there, too. */
const ownAddresses = (): BlockList => {
  const own = new BlockList()
  for (const { address, family } of Object.values(networkInterfaces()).flatMap((one) => one ?? []))
    own.addAddress(address, family === "IPv6" ? "ipv6" : "ipv4")
  return own
}

/** IPv4 addresses that are written as IPv6 are compared as IPv4. */
const isInside = (address: string, own: BlockList): boolean => {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return isInside(mapped, own)
  const family = isIP(address) === 6 ? "ipv6" : "ipv4"
  return inside.check(address, family) || own.check(address, family)
}

export type Resolve = (host: string) => Promise<readonly string[]>

const resolveBySystem: Resolve = async (host) => {
  const found = await lookup(host, { all: true }).catch(() => [])
  return found.map(({ address }) => address)
}

/**
 * The address to connect to; false if the host has an address of this machine, or none. The caller connects to exactly this
 * address: a second lookup of the name could give another one.
 */
export const outsideAddress = async (
  { hostname }: URL,
  resolve: Resolve = resolveBySystem,
): Promise<{ readonly address: string } | false> => {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "")
  if (host === "localhost" || host.endsWith(".localhost")) return false
  const found = isIP(host) === 0 ? await resolve(host) : [host]
  const [address] = found
  const own = ownAddresses()
  const isAllowed = address !== undefined && found.every((one) => !isInside(normalized(one), own))
  return isAllowed && { address }
}

/** `::ffff:7f00:1` as `::ffff:127.0.0.1`. */
const normalized = (address: string): string => {
  const words = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i.exec(address)
  if (words === null) return address
  const [high = 0, low = 0] = words.slice(1).map((word) => Number.parseInt(word, 16))
  return `::ffff:${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}
