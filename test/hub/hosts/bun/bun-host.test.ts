/** The host contract on bun:sqlite. */
import { expect, onTestFinished, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { LocalHub } from "../../../../src/hub/hosts/bun/local-hub.ts"
import { openBunSql } from "../../../../src/hub/hosts/bun/sql.ts"
import { testContract } from "../../contract.ts"
import { blobsIn, startBunHub, startContractHost } from "../../kit/bun-contract-host.ts"
import { connectClient } from "../../kit/client.ts"
import { CLIENT_TOKEN } from "../../kit/hub.ts"
import { untilTrue } from "../../../kit/until-true.ts"

testContract("the hub on bun:sqlite", () => startContractHost())

/** A state directory, and starts of a hub on it. After the test the hubs that still run are stopped, and the directory is removed. */
const prepare = async () => {
  const stateDir = await mkdtemp(join(tmpdir(), "hub-"))
  const hubs: LocalHub[] = []
  onTestFinished(async () => {
    for (const hub of hubs) await hub.stop()
    await rm(stateDir, { recursive: true, force: true })
  })
  const begin = async () => {
    const hub = await startBunHub(stateDir, 0)
    hubs.push(hub)
    return hub
  }
  return { stateDir, begin }
}

test("an orphan blob of a killed hub is deleted at the next start", async () => {
  const { stateDir, begin } = await prepare()
  const first = await begin()
  const url = `data:text/plain;base64,${btoa("kept")}`
  const attachments = [{ type: "file" as const, mime: "text/plain", url }]
  first.create("s1").clients.request({ type: "prompt", content: "look", attachments }, "test")
  const kept = blobsIn(stateDir, "s1")
  await first.stop()
  await writeFile(join(stateDir, "hub", "blobs", "s1", "left"), "half a prompt")
  await begin()
  expect(blobsIn(stateDir, "s1")).toEqual(kept)
  expect(kept).toHaveLength(1)
})

test("a config from before encryption is encrypted at the start and its text leaves the files", async () => {
  const { stateDir, begin } = await prepare()
  const first = await begin()
  first.create("s1")
  await first.stop()
  const file = join(stateDir, "hub", "sessions", "s1.db")
  const sql = openBunSql(file)
  const config = JSON.stringify({ providerKeys: { openai: "sk-from-before" } })
  sql.run("INSERT OR REPLACE INTO meta (name, value) VALUES ('config', ?)", config)
  sql.close()
  const isInFiles = () =>
    readdirSync(join(stateDir, "hub", "sessions")).some((name) =>
      readFileSync(join(stateDir, "hub", "sessions", name)).includes("sk-from-before"),
    )
  expect(isInFiles()).toBeTrue()
  const second = await begin()
  expect(second.find("s1")?.config()).toEqual({ providerKeys: { openai: "sk-from-before" } })
  expect(isInFiles()).toBeFalse()
})

test("clients of 127.0.0.1 and of ::1 receive the same events, and no other program can listen on either", async () => {
  const { begin } = await prepare()
  const hub = await begin()
  const session = hub.create("s1")
  const clients = await Promise.all(
    [hub.url, hub.url.replace("127.0.0.1", "[::1]")].map((url) => connectClient(url, CLIENT_TOKEN)),
  )
  session.clients.request({ type: "prompt", content: "to both" }, "test")
  for (const client of clients)
    await untilTrue(() => client.messages().length + client.queue().length > 0, "the prompt")
  const listen = () => Bun.serve({ hostname: "::1", port: hub.port, fetch: () => new Response() })
  expect(listen).toThrow("in use")
  for (const client of clients) client.close()
  await hub.stop()
  await listen().stop(true)
})
