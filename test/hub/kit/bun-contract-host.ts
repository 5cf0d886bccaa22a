/** The Bun host for the contracts of a host: on a state directory of its own, with restarts at the same address. */
import { existsSync, readdirSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type LocalHub, startLocalHub } from "../../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { freePort } from "../../kit/free-port.ts"
import { silentLog } from "../../kit/log.ts"
import type { ContractHost } from "../contract.ts"
import { ALLOWED_ORIGIN } from "../http-errors-contract.ts"
import { CLIENT_TOKEN } from "./hub.ts"

export const startBunHub = async (
  stateDir: string,
  port: number,
  environment: Readonly<Record<string, string>> = {},
): Promise<LocalHub> => {
  const hub = await startLocalHub({
    stateDir,
    workDir: stateDir,
    port,
    environment,
    clock: systemClock,
    log: silentLog,
    clientToken: CLIENT_TOKEN,
    allowedOrigins: [ALLOWED_ORIGIN],
  })
  await hub.resume()
  return hub
}

/** Names of the blobs of a session. */
export const blobsIn = (stateDir: string, session: string): readonly string[] => {
  const folder = join(stateDir, "hub", "blobs", session)
  return existsSync(folder) ? readdirSync(folder) : []
}

export const startContractHost = async (
  environment: Readonly<Record<string, string>> = {},
): Promise<ContractHost> => {
  const stateDir = await mkdtemp(join(tmpdir(), "hub-"))
  let current = await startBunHub(stateDir, freePort(), environment)
  return {
    url: current.url,
    clientToken: CLIENT_TOKEN,
    disturb: async () => {},
    restart: async () => {
      const { port } = current
      await current.stop()
      current = await startBunHub(stateDir, port, environment)
    },
    blobs: async (session: string) => blobsIn(stateDir, session).length,
    stop: async () => {
      await current.stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
}
