/** A hub without sandboxes (`--provider noop`): what its sessions hear when `serve` restarts. */
import { expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createNoopProvider } from "../../src/fleet/providers/noop.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { untilTrue } from "../kit/until-true.ts"
import { startStack } from "./kit/stack.ts"

test("after a restart no session is told that files are lost, because there were none", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-noop-"))
  const store = openSqliteStore(":memory:")
  const start = () =>
    startStack(folder, {
      provider: createNoopProvider(Date.now),
      store: { ...store, close: async () => {} },
    })
  const first = await start()
  const response = await fetch(`${first.hub.url}/api/threads/T:1/resolve?wait=1`, {
    method: "POST",
    headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
  })
  const { sessionId } = (await response.json()) as { readonly sessionId: string }
  await first.stop()
  const second = await start()
  await second.sweeper.sweep()
  await untilTrue(async () => {
    const found = await store.find(sessionId)
    return found?.life.generation === 2 && found.life.phase === "running"
  }, "the next sandbox")
  expect(JSON.stringify(second.hub.find(sessionId)?.recent(10))).toBe("[]")
  await second.stop()
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})
