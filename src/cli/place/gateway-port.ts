/**
 * The gateway's port of a place. It stays the same over restarts, because a running OpenCode has stored it; a second `up`
 * gets another one.
 */
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import type { Settings } from "../../settings/settings.ts"
import { probePort } from "../port-in-use.ts"
import { takeLock } from "./lock.ts"

/** A directory in `base`. */
export const GATEWAY_PORT_LOCK = "gateway-port"

export interface GatewayPort {
  /** 0 for any free port. */
  readonly port: number
  readonly release: () => void
}

/**
 * `base` is shared by all places: a lock for each port keeps two `up` that start together from choosing one port. It may be
 * the default, or the last port of two places, of which the second ran while the first did not.
 */
export const chooseGatewayPort = async (
  settings: Settings,
  base: string,
  file: string,
): Promise<GatewayPort> => {
  const { given, gatewayHost, gatewayPort } = settings
  const fixed = (port: number) => ({ port, release: () => {} })
  if (given.has("gatewayPort")) return fixed(gatewayPort)
  const last = Number(await readFile(file, "utf8").catch(() => ""))
  const isStored = Number.isInteger(last) && last > 0 && last < 65_536
  const wanted = isStored ? last : gatewayPort
  const lock = takeLock(join(base, GATEWAY_PORT_LOCK, String(wanted)))
  if (lock && probePort(gatewayHost, wanted) === "free")
    return { port: wanted, release: lock.release }
  lock?.release()
  return fixed(0)
}
