/** Who is behind a network address, for limits. Pure. */

const MAPPED = /^::ffff:(\d+(?:\.\d+){3})$/i
/** The groups of an IPv6 address that a network is known by: 64 bits. */
const NETWORK_GROUPS = 4
const GROUPS = 8

/** An IPv6 caller has the 2^64 addresses of its network, so the network is one peer; an IPv4 address is one by itself. */
export const peerOf = (address: string): string => {
  const mapped = MAPPED.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  if (!address.includes(":")) return address
  const [head = "", tail] = address.split("%", 1)[0]?.split("::") ?? []
  const before = head.split(":").filter(Boolean)
  const after = tail?.split(":").filter(Boolean) ?? []
  const missing = tail === undefined ? 0 : Math.max(0, GROUPS - before.length - after.length)
  const groups = [...before, ...Array.from({ length: missing }, () => "0"), ...after]
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => Number.parseInt(group, 16) || 0)
  return `${network.map((group) => group.toString(16)).join(":")}::/64`
}
