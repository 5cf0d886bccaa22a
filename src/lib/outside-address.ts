/** Which addresses the runner connects to on behalf of others: none of this machine and none of its local link. */
import { lookup } from "node:dns/promises"
import { BlockList, isIP } from "node:net"

const inside = new BlockList()
for (const [network, bits] of [
  ["0.0.0.0", 8],
  ["127.0.0.0", 8],
  // Link-local: also the metadata service of cloud machines.
  ["169.254.0.0", 16],
] as const) {
  inside.addSubnet(network, bits, "ipv4")
}
for (const [network, bits] of [
  ["::", 127],
  ["fe80::", 10],
] as const) {
  inside.addSubnet(network, bits, "ipv6")
}

/** IPv4 addresses that are written as IPv6 are compared as IPv4. */
const isInside = (address: string): boolean => {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return isInside(mapped)
  return inside.check(address, isIP(address) === 6 ? "ipv6" : "ipv4")
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
  const isAllowed = address !== undefined && found.every((one) => !isInside(normalized(one)))
  return isAllowed && { address }
}

/** `::ffff:7f00:1` as `::ffff:127.0.0.1`. */
const normalized = (address: string): string => {
  const words = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i.exec(address)
  if (words === null) return address
  const [high = 0, low = 0] = words.slice(1).map((word) => Number.parseInt(word, 16))
  return `::ffff:${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}
