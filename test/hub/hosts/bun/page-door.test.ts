/** The page of `serve`: the hub on Bun serves it on a host name of its own. */
import { expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { servePage } from "../../../../src/cli/serve-page.ts"
import { loadPageFiles } from "../../../../src/hub/page-files.ts"
import { testPageDoor } from "../../page-door-contract.ts"
import { CLIENT_TOKEN, startTestHub } from "../../kit/hub.ts"
import { AUDIENCE, ISSUER, JWT_SECRET } from "../../kit/owners.ts"

const startPageHost = async () => {
  const stateDir = await mkdtemp(join(tmpdir(), "page-host-"))
  const settings = { stateDir, pageOrigin: "http://sandpiper.localhost", sandboxOrigin: undefined }
  const page = servePage(settings, await loadPageFiles(), CLIENT_TOKEN)
  const { hub, stop } = await startTestHub({
    stateDir,
    page,
    jwt: { secret: JWT_SECRET, issuer: ISSUER, audience: AUDIENCE },
  })
  return {
    url: hub.url,
    pageOrigin: `http://sandpiper.localhost:${hub.port}`,
    clientToken: CLIENT_TOKEN,
    stop: async () => {
      await stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
}

testPageDoor("the page that the hub on Bun serves", startPageHost)

test("the API is not on the page's host, the page is not on the API's host, and another name is refused", async () => {
  const host = await startPageHost()
  const status = async (path: string, name: string) =>
    (
      await fetch(`${host.url}${path}`, {
        headers: { Host: name, Authorization: `Bearer ${CLIENT_TOKEN}` },
      })
    ).status
  expect(await status("/sessions", "sandpiper.localhost")).toBe(404)
  expect(await status("/", "127.0.0.1")).toBe(404)
  expect(await status("/sessions", "127.0.0.1")).toBe(200)
  expect(await status("/", "evil.example")).toBe(421)
  await host.stop()
})
