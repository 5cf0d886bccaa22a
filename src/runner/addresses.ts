/** Which ports of this machine belong to the runner, and the address that its gateway is reached at. */
import type { Settings } from "../settings/settings.ts"
import { boxOrigin, originFor } from "./gateway/hosts.ts"
import type { PageOptions } from "./gateway/page/page-door.ts"

/** Ports that no tunnel may use, beside those of the gateway's backends and of OpenCode. */
export const reservedPorts = (
  rawVncPort: number,
  controlPort: number | undefined,
  brokerPort: number,
  v1Port: number | undefined,
  closedPorts: readonly number[],
): readonly (readonly [number, string])[] => [
  ...closedPorts.map((port) => [port, "the platform of this sandbox"] as const),
  [rawVncPort, "the VNC server"],
  [brokerPort, "the key broker"],
  ...(controlPort === undefined ? [] : [[controlPort, "the control server"] as const]),
  ...(v1Port === undefined ? [] : [[v1Port, "the server of files and processes"] as const]),
]

/**
 * The address of the box where there is a page. Elsewhere a gateway on loopback is reached on this machine; any other one
 * only by its public address.
 */
export const gatewayUrlOf = (
  { publicUrl, gatewayHost }: Settings,
  port: number | undefined,
  page: PageOptions | undefined,
): string | undefined => {
  if (publicUrl !== undefined || port === undefined) return publicUrl
  if (page !== undefined) return originFor(boxOrigin(page.tunnels), `:${port}`)
  return gatewayHost === "127.0.0.1" ? `http://127.0.0.1:${port}` : undefined
}
