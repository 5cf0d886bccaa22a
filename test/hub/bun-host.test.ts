/** The contract, held by the host on one machine. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { holdContract } from "./contract.ts"
import { CLIENT_TOKEN, startTestHub } from "./kit/hub.ts"

holdContract("the hub on bun:sqlite", async () => {
  const stateDir = await mkdtemp(join(tmpdir(), "hub-"))
  let current = await startTestHub({ stateDir }, undefined)
  return {
    url: current.hub.url,
    clientToken: CLIENT_TOKEN,
    disturb: async () => {},
    restart: async () => {
      const { port } = current.hub
      await current.stop()
      current = await startTestHub({ stateDir, port }, undefined)
    },
    stop: async () => {
      await current.stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
})
