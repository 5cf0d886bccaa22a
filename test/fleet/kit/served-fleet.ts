/** The fleet of a hub elsewhere, in this process, for tests of what the hub and callers see. */
import {
  type ServedFleet,
  type ServeFleetOptions,
  startServedFleet,
} from "../../../src/cli/serve-fleet.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { silentLog } from "../../kit/log.ts"

export const FLEET_KEY = "a key of the fleet for tests only"
export const OPERATOR_TOKEN = "operator-of-the-fleet"

/** On loopback, at a free port if none is given. */
export const serveFleet = (
  options: Pick<ServeFleetOptions, "hubUrl" | "provider" | "store"> & Partial<ServeFleetOptions>,
): Promise<ServedFleet> =>
  startServedFleet({
    fleetKey: FLEET_KEY,
    hostname: "127.0.0.1",
    port: 0,
    operatorToken: OPERATOR_TOKEN,
    clock: systemClock,
    log: silentLog,
    version: "0.2.0",
    idleMs: 900_000,
    pausedMs: undefined,
    minimumVersion: undefined,
    environmentOf: () => ({ providerKeys: {}, credentials: {}, github: {} }),
    ...options,
  })
