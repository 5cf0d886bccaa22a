/** The contract, held by the host on one machine. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type LocalHub, startLocalHub } from "../../src/hub/local-hub.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { holdContract } from "./contract.ts"
import { CLIENT_TOKEN } from "./kit/hub.ts"
import { silentLog } from "../kit/log.ts"

const start = async (stateDir: string, port: number): Promise<LocalHub> => {
  const hub = await startLocalHub({
    stateDir,
    workDir: stateDir,
    port,
    environment: {},
    clock: systemClock,
    log: silentLog,
    clientToken: CLIENT_TOKEN,
  })
  await hub.resume()
  return hub
}

holdContract("the hub on bun:sqlite", async () => {
  const stateDir = await mkdtemp(join(tmpdir(), "hub-"))
  let current = await start(stateDir, 0)
  return {
    url: current.url,
    clientToken: CLIENT_TOKEN,
    disturb: async () => {},
    restart: async () => {
      const { port } = current
      await current.stop()
      current = await start(stateDir, port)
    },
    stop: async () => {
      await current.stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
})
