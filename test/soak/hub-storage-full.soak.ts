/** Clients of a hub whose disk is full, on both hosts: the HTTP answer, and a prompt that works when there is room. */
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test"
import { appendFileSync, mkdirSync, rmSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startLocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { bundleWorker, startWorkerd } from "../hub/kit/workerd.ts"
import { requireRoot } from "../kit/boot.ts"
import { silentLog } from "../kit/log.ts"
import { untilTrue } from "../kit/until-true.ts"

setDefaultTimeout(120_000)
let root: string
let disk: string
beforeEach(async () => {
  requireRoot()
  root = await mkdtemp(join(tmpdir(), "hub-full-"))
  disk = join(root, "disk")
  mkdirSync(disk)
  expect(Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk]).exitCode).toBe(0)
})
afterEach(async () => {
  Bun.spawnSync(["umount", "-l", disk])
  await rm(root, { recursive: true, force: true })
})

/** Leaves no byte. */
const fill = () => {
  const piece = Buffer.alloc(4096)
  try {
    for (;;) appendFileSync(join(disk, "filler"), piece)
  } catch {
    // It is full.
  }
}

const onBun = async () => {
  const hub = await startLocalHub({
    stateDir: join(disk, "state"),
    workDir: root,
    port: 0,
    environment: {},
    clock: systemClock,
    log: silentLog,
    clientToken: CLIENT_TOKEN,
  })
  await hub.resume()
  return { url: hub.url, clientToken: CLIENT_TOKEN, stop: hub.stop }
}

test.each([
  ["on Bun", onBun],
  ["in a Durable Object", async () => startWorkerd(await bundleWorker(), {}, { below: disk })],
] as const)(
  "a prompt to a hub %s with a full disk gets 507 and storage-full, and works when there is room",
  async (_name, start) => {
    const hub = await start()
    const call = (method: string, path: string, body: object) =>
      fetch(`${hub.url}${path}`, {
        method,
        headers: { Authorization: `Bearer ${hub.clientToken}` },
        body: JSON.stringify(body),
      })
    const prompt = (content: string) => call("POST", "/sessions/s1/prompt", { content })
    try {
      expect((await call("PUT", "/sessions/s1", { runnerToken: RUNNER_TOKEN })).status).toBe(201)
      expect((await prompt("before")).status).toBe(200)
      fill()
      // What fits into pages that are allocated already is still stored.
      let last: Response | undefined
      await untilTrue(async () => {
        last = await prompt("x".repeat(200_000))
        return last.status !== 200
      }, "refused prompt")
      expect({ status: last?.status, body: await last?.json() }).toMatchObject({
        status: 507,
        body: {
          ok: false,
          error: { code: "storage-full", message: expect.stringContaining("the disk is full") },
        },
      })
      rmSync(join(disk, "filler"))
      await untilTrue(async () => (await prompt("after")).ok, "accepted prompt")
    } finally {
      await hub.stop()
    }
  },
)
