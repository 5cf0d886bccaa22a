/** Owners and access on the Bun host. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startLocalHub } from "../../../../src/hub/hosts/bun/local-hub.ts"
import type { JwtSettings } from "../../../../src/hub/access/verify-jwt.ts"
import { systemClock } from "../../../../src/lib/clock.ts"
import { freePort } from "../../../kit/free-port.ts"
import { silentLog } from "../../../kit/log.ts"
import { CLIENT_TOKEN } from "../../kit/hub.ts"
import { AUDIENCE, ISSUER, JWT_SECRET, type OwnersHost } from "../../kit/owners.ts"
import { testKeySet } from "../../key-set.ts"
import { testOwners } from "../../owners.ts"

const startHost = async (jwt: JwtSettings): Promise<OwnersHost> => {
  const folder = await mkdtemp(join(tmpdir(), "owners-"))
  const start = async (port: number) => {
    const hub = await startLocalHub({
      stateDir: folder,
      workDir: folder,
      port,
      environment: { GITHUB_TOKEN: "of-the-operator", GITHUB_API_URL: "http://127.0.0.1:1" },
      clock: systemClock,
      log: silentLog,
      clientToken: CLIENT_TOKEN,
      // All people of these tests have one address.
      wrongSecrets: () => false,
      jwt: { issuer: ISSUER, audience: AUDIENCE, ...jwt },
    })
    await hub.resume()
    return hub
  }
  let current = await start(freePort())
  return {
    url: current.url,
    clientToken: CLIENT_TOKEN,
    folder,
    restart: async () => {
      const { port } = current
      await current.stop()
      current = await start(port)
    },
    stop: async () => {
      await current.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

testOwners("owners on bun:sqlite", () => startHost({ secret: JWT_SECRET }))
testKeySet("bun:sqlite", (jwksUrl) => startHost({ jwksUrl }))
