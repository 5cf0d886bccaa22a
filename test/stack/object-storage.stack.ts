/** The copy of a workspace in a real S3 service: OpenStack Swift with its S3 API. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startLocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { presign } from "../../src/lib/s3-url.ts"
import { startFakeRunner } from "../hub/kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "../hub/kit/hub.ts"
import { untilFound, untilTrue } from "../kit/until-true.ts"
import { failureOf } from "../kit/failure-of.ts"
import { silentLog } from "../kit/log.ts"
import { startTcpProxy } from "../kit/tcp-proxy.ts"
import { own, type SandboxWorkspace, startWorkspace } from "../runner/sandbox/sync/kit.ts"
import { startSwift, type Swift } from "./swift.ts"

let swift: Swift
const open: SandboxWorkspace[] = []
beforeAll(async () => {
  swift = await startSwift()
}, 240_000)
afterAll(async () => {
  for (const workspace of open) await workspace.stop()
  await swift.stop()
})

const workspace = async (...args: Parameters<typeof startWorkspace>) => {
  const started = await startWorkspace(...args)
  open.push(started)
  return started
}
const difference = async (one: SandboxWorkspace, other: SandboxWorkspace) =>
  (await Bun.$`diff -r ${one.root} ${other.root}`.nothrow().quiet()).stdout.toString()

test("500 files are saved, an unchanged save is quick, one changed and one removed follow, and a restore is equal", async () => {
  const one = await workspace(swift, "five hundred")
  for (let index = 0; index < 500; index += 1) {
    const folder = join(one.root, `d${index % 20}`)
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, `f${index}`), `content ${index}`)
  }
  await own(one.root)
  const first = performance.now()
  expect(await one.copy.save()).toMatchObject({ files: 500, uploaded: 500 })
  const second = performance.now()
  expect(await one.copy.save()).toMatchObject({ uploaded: 0, removed: 0 })
  const third = performance.now()
  await one.put("d1/f1", "another content")
  await rm(join(one.root, "d2/f2"))
  expect(await one.copy.save()).toMatchObject({ files: 499, uploaded: 1, removed: 2 })
  const fourth = performance.now()
  const next = await workspace(swift, "five hundred")
  expect(await next.copy.restore()).toBe(499)
  const fifth = performance.now()
  expect(await difference(one, next)).toBe("")
  const times = [second - first, third - second, fourth - third, fifth - fourth]
  process.stderr.write(
    `500 files to Swift: first, unchanged, one changed, restore: ${times.map((ms) => `${Math.round(ms)} ms`).join(", ")}\n`,
  )
  // 30 ms on an idle machine.
  expect(third - second).toBeLessThan(1000)
})

test("a wrong secret is refused by the service, and nothing is stored", async () => {
  const credentials = { ...swift.credentials, secretAccessKey: "wrong" }
  const one = await workspace({ ...swift, credentials }, "wrong secret")
  await one.put("a", "alpha")
  expect(await failureOf(one.copy.save())).toContain("403 (SignatureDoesNotMatch)")
  const other = await workspace(swift, "wrong secret")
  expect(await other.copy.restore()).toBe(0)
})

test("the objects of a save that was cut are found by listing and deleted", async () => {
  const lost = await workspace(swift, "swept")
  await lost.put("kept", "kept")
  await lost.copy.save()
  const bucket = { ...swift, ...swift.credentials }
  const now = Date.now()
  const key = (name: string) => `sandboxes/swept/files/${name.repeat(64)}`
  for (const name of ["a", "b", "c"]) {
    const url = presign(bucket, { method: "PUT", key: key(name), now, expiresSeconds: 600 })
    expect((await fetch(url, { method: "PUT", body: name })).ok).toBe(true)
  }
  // An object of this moment counts as old here.
  const next = await workspace(swift, "swept", () => {}, -60_000)
  await next.copy.restore()
  await next.copy.save()
  for (const name of ["a", "b", "c"]) {
    const url = presign(bucket, { method: "HEAD", key: key(name), now, expiresSeconds: 600 })
    expect((await fetch(url, { method: "HEAD" })).status).toBe(404)
  }
  const last = await workspace(swift, "swept")
  expect(await last.copy.restore()).toBe(1)
})

test("a file that the agent shows is stored in Swift, and a client reads it through the hub", async () => {
  const folder = await mkdtemp(join(tmpdir(), "shown-"))
  const hub = await startLocalHub({
    stateDir: join(folder, "state"),
    workDir: folder,
    port: 0,
    environment: {
      PATH: "/usr/bin:/bin",
      S3_ENDPOINT: swift.endpoint,
      S3_REGION: swift.region,
      S3_BUCKET: swift.bucket,
      S3_ACCESS_KEY_ID: swift.credentials.accessKeyId,
      S3_SECRET_ACCESS_KEY: swift.credentials.secretAccessKey,
    },
    clock: systemClock,
    log: silentLog,
    clientToken: CLIENT_TOKEN,
  })
  const headers = { authorization: `Bearer ${CLIENT_TOKEN}` }
  const session = `${hub.url}/sessions/shown`
  await fetch(session, {
    method: "PUT",
    headers,
    body: JSON.stringify({ runnerToken: RUNNER_TOKEN }),
  })
  const runner = startFakeRunner({
    url: `${session.replace(/^http/, "ws")}/ws`,
    token: RUNNER_TOKEN,
    stateDir: join(folder, "runner"),
  })
  const sha256 = new Bun.CryptoHasher("sha256").update("shown").digest("hex")
  const files = [{ path: "a.txt", sha256, data: btoa("shown") }]
  runner.send({ type: "artifacts", channelType: "web", channelId: "default", turnId: "t1", files })
  const blobs = join(folder, "state/hub/blobs/shown")
  const idOf = async (): Promise<string | undefined> => {
    const snapshot = (await (await fetch(session, { headers })).json()) as {
      artifacts: { id: string }[]
    }
    return snapshot.artifacts[0]?.id
  }
  const id = await untilFound(idOf, "artifact of the session")
  // The blob is deleted when Swift has the object.
  await untilTrue(() => !existsSync(join(blobs, id)), "the end of the blob")
  const key = `sandboxes/shown/artifacts/${id}`
  const signed = { method: "GET" as const, key, now: Date.now(), expiresSeconds: 60 }
  const object = await fetch(presign({ ...swift, ...swift.credentials }, signed))
  expect([object.headers.get("content-type"), await object.text()]).toEqual(["text/plain", "shown"])
  const shown = await fetch(`${session}/artifacts/${id}`, { headers })
  expect([shown.status, await shown.text()]).toEqual([200, "shown"])
  await runner.stop()
  await hub.stop()
  await rm(folder, { recursive: true, force: true })
})

test("a connection that is cut in the middle of a save leaves the former state", async () => {
  const proxy = await startTcpProxy(Number(new URL(swift.endpoint).port))
  const endpoint = `http://127.0.0.1:${proxy.port}`
  let cutsAt = ""
  const one = await workspace({ ...swift, endpoint }, "cut", (path) => {
    if (path !== cutsAt) return
    proxy.setDown(true)
    proxy.reset()
  })
  for (let index = 0; index < 40; index += 1) await one.put(`f${index}`, `first ${index}`)
  await one.copy.save()
  const before = await workspace(swift, "cut")
  await before.copy.restore()
  for (let index = 0; index < 40; index += 1) await one.put(`f${index}`, `second ${index}`)
  cutsAt = "f30"
  expect(await failureOf(one.copy.save())).toContain("the object storage cannot be reached")
  const after = await workspace(swift, "cut")
  await after.copy.restore()
  expect(await difference(before, after)).toBe("")
  await proxy.stop()
})
