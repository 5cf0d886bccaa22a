/** The ports on which something listens and that the gateway can reach: loopback, or every address. From the socket table. */
import { readFileSync } from "node:fs"

const LISTEN = "0A"
/** As the table writes them: 0.0.0.0, 127.0.0.1, ::, ::1 and the IPv4 ones in IPv6. */
const REACHABLE = new Set([
  "00000000",
  "0100007F",
  "0".repeat(32),
  `${"0".repeat(24)}01000000`,
  `${"0".repeat(16)}FFFF000000000000`,
  `${"0".repeat(16)}FFFF00000100007F`,
])

/** Of the text of `/proc/net/tcp` or `/proc/net/tcp6`. */
export const parseListeningPorts = (table: string): readonly number[] =>
  table.split("\n").flatMap((line) => {
    const [, local = "", , state] = line.trim().split(/\s+/)
    const [address = "", port = ""] = local.split(":")
    return state === LISTEN && REACHABLE.has(address) ? [Number.parseInt(port, 16)] : []
  })

/** Undefined where the system has no such table. */
export const readListeningPorts = (): ReadonlySet<number> | undefined => {
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((file) => {
    try {
      return [readFileSync(file, "utf8")]
    } catch {
      return []
    }
  })
  return tables.length === 0 ? undefined : new Set(tables.flatMap(parseListeningPorts))
}
