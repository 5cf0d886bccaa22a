/** `sandpiper key` against a running session agent, with the effect of each call on a client. */
import { afterEach, expect, test } from "bun:test"
import { readFileSync, statSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { writeAddress } from "../../src/hub/hosts/bun/address.ts"
import { type LocalHub, startLocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { freePort } from "../kit/free-port.ts"
import { silentLog } from "../kit/log.ts"
import { runToEnd } from "../kit/run-to-end.ts"
import { runnerFromSource } from "../kit/runner.ts"

const running: { readonly hub: LocalHub; readonly stateDir: string }[] = []

const start = async () => {
  const stateDir = await mkdtemp(join(tmpdir(), "key-"))
  const hub = await startLocalHub({
    stateDir,
    workDir: stateDir,
    port: freePort(),
    environment: {},
    clock: systemClock,
    log: silentLog,
    clientToken: CLIENT_TOKEN,
  })
  writeAddress(stateDir, { url: hub.url, token: CLIENT_TOKEN })
  running.push({ hub, stateDir })
  return { hub, stateDir }
}

const key = (stateDir: string, ...args: readonly string[]) =>
  runToEnd([...runnerFromSource, "key", ...args], {
    env: { PATH: process.env["PATH"] ?? "", HOME: stateDir, SANDPIPER_STATE_DIR: stateDir },
  })

afterEach(async () => {
  for (const { hub, stateDir } of running.splice(0)) {
    await hub.stop()
    await rm(stateDir, { recursive: true, force: true })
  }
})

test("a key that the command line creates opens the sessions of its owner until it is revoked", async () => {
  const { hub, stateDir } = await start()
  hub.create("hers", "user:alice")
  hub.create("his", "user:bob")
  const made = await key(stateDir, "create", "--owner", "user:alice", "--scope", "sessions:read")
  expect(made.err).toBe("")
  const token = made.out.trim()
  const read = async (session: string) =>
    (
      await fetch(`${hub.url}/sessions/${session}`, {
        headers: { Authorization: `Bearer ${token}` },
      })
    ).status
  expect(await read("hers")).toBe(200)
  expect(await read("his")).toBe(404)
  const listed = await key(stateDir, "list", "--owner", "user:alice")
  const prefix = token.split("_")[1] ?? ""
  expect(listed.out).toContain(prefix)
  expect(listed.out).not.toContain(token)
  const revoked = await key(stateDir, "revoke", prefix, "--owner", "user:alice")
  expect(revoked.out).toBe(`The key ${prefix} is revoked.\n`)
  expect(await read("hers")).toBe(401)
})

test("a key needs known scopes and the error says which there are", async () => {
  const { stateDir } = await start()
  const refused = await key(stateDir, "create", "--owner", "user:alice", "--scope", "everything")
  expect(refused.code).toBe(1)
  expect(refused.err).toContain("expected some of sessions:read")
  expect((await key(stateDir, "create")).code).toBe(2)
})

test("the rotation makes a new key file of mode 600 and the configs stay readable", async () => {
  const { hub, stateDir } = await start()
  const file = join(stateDir, "hub", "encryption.key")
  const before = readFileSync(file, "utf8")
  hub.create("s1").configure({ providerKeys: { openai: "sk-of-the-test" } })
  const rotated = await key(stateDir, "rotate")
  expect(rotated.out).toContain("1 sessions")
  expect(readFileSync(file, "utf8")).not.toBe(before)
  expect(readFileSync(file, "utf8")).not.toContain(",")
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const { port } = hub
  running.pop()
  await hub.stop()
  const again = await startLocalHub({
    stateDir,
    workDir: stateDir,
    port,
    environment: {},
    clock: systemClock,
    log: silentLog,
    clientToken: CLIENT_TOKEN,
  })
  running.push({ hub: again, stateDir })
  expect(again.find("s1")?.config()).toEqual({ providerKeys: { openai: "sk-of-the-test" } })
})
