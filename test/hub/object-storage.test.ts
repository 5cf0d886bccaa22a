/**
 * The hub signs URLs of the session that asks, on both hosts, and keeps its keys and the URLs to itself. The tests of a host share it
 * and the storage; each has a session of its own.
 */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
} from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startLocalHub } from "../../src/hub/hosts/bun/local-hub.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { parseOutbound } from "../../src/wire/frames/index.ts"
import { silentLog } from "../kit/log.ts"
import { type S3Server, startS3Server } from "../kit/s3-server.ts"
import { type FakeRunner, startFakeRunner } from "./kit/fake-runner.ts"
import { CLIENT_TOKEN, RUNNER_TOKEN } from "./kit/hub.ts"
import { bundleWorker, startWorkerd } from "./kit/workerd.ts"
import { failureOf } from "../kit/failure-of.ts"
import { untilEqual, untilState, untilTrue } from "../kit/until-true.ts"

interface Host {
  readonly url: string
  readonly stop: () => Promise<void>
}
type Variables = Readonly<Record<string, string>>

const hosts: Readonly<Record<string, (folder: string, variables: Variables) => Promise<Host>>> = {
  bun: (folder, environment) =>
    startLocalHub({
      stateDir: join(folder, "state"),
      workDir: folder,
      port: 0,
      environment: { PATH: "/usr/bin:/bin", ...environment },
      clock: systemClock,
      log: silentLog,
      clientToken: CLIENT_TOKEN,
    }),
  workerd: async (_folder, variables) => startWorkerd(await bundleWorker(), variables),
}

const HASH = "ab".repeat(32)

describe.each(Object.keys(hosts))("object storage with the hub on %s", (name) => {
  let folder: string
  let s3: S3Server
  let host: Host
  const runners: FakeRunner[] = []

  const start = async (session: string) => {
    await fetch(`${host.url}/sessions/${session}`, {
      method: "PUT",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
      body: JSON.stringify({ runnerToken: RUNNER_TOKEN }),
    })
    const runner = startFakeRunner({
      url: `${host.url.replace(/^http/, "ws")}/sessions/${session}/ws`,
      token: RUNNER_TOKEN,
      stateDir: join(folder, session),
    })
    runners.push(runner)
    return runner
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "storage-"))
    s3 = startS3Server()
    host = await hosts[name]!(folder, {
      S3_ENDPOINT: s3.endpoint,
      S3_REGION: s3.region,
      S3_ACCESS_KEY_ID: s3.credentials.accessKeyId,
      S3_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
    })
  })
  afterAll(async () => {
    for (const runner of runners) await runner.stop()
    await host.stop()
    await s3.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test("a signed URL stores and reads an object of the session that asked", async () => {
    const runner = await start("s1")
    const signed = await runner.uplink.request("workspace-urls", {
      manifest: "put",
      put: [HASH],
      get: [HASH],
      remove: [HASH],
    })
    const stored = await fetch(signed.put[0] ?? "", { method: "PUT", body: "content" })
    expect(stored.status).toBe(200)
    const keys = [...s3.objects.keys()].filter((key) => key.startsWith("sandboxes/s1/"))
    expect(keys).toEqual([`sandboxes/s1/files/${HASH}`])
    expect(await (await fetch(signed.get[0] ?? "")).text()).toBe("content")
    const manifest = await fetch(signed.manifest ?? "", { method: "PUT", body: "{}" })
    expect(manifest.status).toBe(200)
    expect((await fetch(signed.remove[0] ?? "", { method: "DELETE" })).status).toBe(204)
    expect(JSON.stringify(signed)).not.toContain(s3.credentials.secretAccessKey)
  })

  test("the URLs of another session name other objects", async () => {
    const other = await start("s2")
    const signed = await other.uplink.request("workspace-urls", { get: [HASH], manifest: "get" })
    expect(new URL(signed.manifest ?? "").pathname).toBe("/workspace/sandboxes/s2/manifest.json")
    expect((await fetch(signed.get[0] ?? "")).status).toBe(404)
  })

  test("a signed list has the files of the session that asked and no others", async () => {
    const s3Keys = [`sandboxes/s3/files/${HASH}`, `sandboxes/s4/files/${HASH}`]
    for (const key of s3Keys) s3.objects.set(key, new Uint8Array(1))
    const runner = await start("s3")
    const { list } = await runner.uplink.request("workspace-urls", { list: "" })
    const text = await (await fetch(list ?? "")).text()
    expect([...text.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key)).toEqual([s3Keys[0]])
    const rest = await runner.uplink.request("workspace-urls", { list: HASH })
    expect(await (await fetch(rest.list ?? "")).text()).not.toContain("<Key>")
  })
})

describe.each(Object.keys(hosts))("files that the agent shows with the hub on %s", (name) => {
  const PIXEL = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex")
  const headers = { authorization: `Bearer ${CLIENT_TOKEN}` }
  let folder: string
  let s3: S3Server
  let host: Host
  let sessions = 0
  /** The session of the running test, and its runner. */
  let own = ""
  let runner: FakeRunner

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "shown-"))
    s3 = startS3Server()
    host = await hosts[name]!(folder, {
      S3_ENDPOINT: s3.endpoint,
      S3_REGION: s3.region,
      S3_ACCESS_KEY_ID: s3.credentials.accessKeyId,
      S3_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
    })
  })
  beforeEach(async () => {
    sessions += 1
    own = `shown-${sessions}`
    await fetch(`${host.url}/sessions/${own}`, {
      method: "PUT",
      headers,
      body: JSON.stringify({ runnerToken: RUNNER_TOKEN }),
    })
    runner = startFakeRunner({
      url: `${host.url.replace(/^http/, "ws")}/sessions/${own}/ws`,
      token: RUNNER_TOKEN,
      stateDir: join(folder, own),
    })
  })
  afterEach(async () => {
    s3.intercept = undefined
    await runner.stop()
  })
  afterAll(async () => {
    await host.stop()
    await s3.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const show = (path: string, content: Buffer) =>
    runner.send({
      type: "artifacts",
      channelType: "web",
      channelId: "default",
      turnId: "t1",
      files: [
        {
          path,
          sha256: new Bun.CryptoHasher("sha256").update(content).digest("hex"),
          data: content.toString("base64"),
        },
      ],
    })
  const artifacts = async (): Promise<readonly { id: string; description: string }[]> => {
    const response = await fetch(`${host.url}/sessions/${own}`, { headers })
    return ((await response.json()) as { artifacts: { id: string; description: string }[] })
      .artifacts
  }
  const idOf = async (path: string): Promise<string> => {
    const isIt = (one: { description: string }) => one.description === path
    const all = await untilState(artifacts, (found) => found.some(isIt), `artifact ${path}`)
    return all.find(isIt)?.id ?? ""
  }
  const keyOf = (id: string) => `sandboxes/${own}/artifacts/${id}`
  const read = (id: string) => fetch(`${host.url}/sessions/${own}/artifacts/${id}`, { headers })

  test("a shown file is stored once as an object, and clients read it with its type and safe headers", async () => {
    show("pixel.png", PIXEL)
    show("page.html", Buffer.from("<script>alert(1)</script>"))
    show("pixel.png", PIXEL)
    const [image, page] = [await idOf("pixel.png"), await idOf("page.html")]
    await untilTrue(
      () => s3.objects.has(keyOf(image)) && s3.objects.has(keyOf(page)),
      "both objects in the storage",
    )
    const shown = await read(image)
    expect([shown.status, shown.headers.get("content-type")]).toEqual([200, "image/png"])
    expect(Buffer.from(await shown.arrayBuffer())).toEqual(PIXEL)
    const html = await read(page)
    expect(html.headers.get("content-type")).toBe("application/octet-stream")
    expect(html.headers.get("content-disposition")).toBe("attachment")
    expect(html.headers.get("content-security-policy")).toContain("sandbox")
    expect(html.headers.get("x-content-type-options")).toBe("nosniff")
    expect(await html.text()).toBe("<script>alert(1)</script>")
    expect((await artifacts()).length).toBe(2)
    const keys = [...s3.objects.keys()].filter((key) => key.startsWith(`sandboxes/${own}/`))
    expect(keys.toSorted()).toEqual([keyOf(image), keyOf(page)].toSorted())
    expect((await fetch(`${host.url}/sessions/${own}/artifacts/${image}`)).status).toBe(401)
  })

  test("the bytes come from the storage: while it fails the hub says so, and asks to try again", async () => {
    show("later.txt", Buffer.from("later"))
    const id = await idOf("later.txt")
    await untilTrue(() => s3.objects.has(keyOf(id)), "the object")
    // The blob is deleted in the moment after the storage has answered.
    s3.objects.set(keyOf(id), Buffer.from("of the storage"))
    const text = async () => (await read(id)).text()
    await untilEqual(text, "of the storage", "content of the storage")
    s3.intercept = async () => new Response("", { status: 500 })
    const failed = await read(id)
    expect([failed.status, failed.headers.get("retry-after")]).toEqual([503, "5"])
    const body = await failed.text()
    expect(body).toContain("the object storage does not answer")
    expect(body).not.toContain("X-Amz")
    s3.intercept = undefined
    expect(await text()).toBe("of the storage")
    expect((await read("no-such-file")).status).toBe(404)
  })

  test("a file that the storage refuses stays at the hub, and clients read it all the same", async () => {
    s3.intercept = async (method) =>
      method === "PUT" ? new Response("", { status: 403 }) : undefined
    show("refused.txt", Buffer.from("kept here"))
    const id = await idOf("refused.txt")
    await untilTrue(() => s3.calls.includes(`PUT ${keyOf(id)}`), "the refused upload")
    expect(await (await read(id)).text()).toBe("kept here")
    s3.intercept = undefined
    expect(s3.objects.has(keyOf(id))).toBe(false)
  })
})

test("a name that is not a hash is refused, so that no URL leaves the session's objects", () => {
  const request = { type: "workspace-urls", requestId: "r1", put: ["../../s1/manifest.json"] }
  expect(parseOutbound(JSON.stringify(request)).ok).toBe(false)
  expect(parseOutbound(JSON.stringify({ ...request, put: [HASH] })).ok).toBe(true)
})

test("a hub without object storage refuses and names the settings", async () => {
  const folder = await mkdtemp(join(tmpdir(), "storage-"))
  const host = await hosts["bun"]!(folder, {})
  await fetch(`${host.url}/sessions/s1`, {
    method: "PUT",
    headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
    body: JSON.stringify({ runnerToken: RUNNER_TOKEN }),
  })
  const runner = startFakeRunner({
    url: `${host.url.replace(/^http/, "ws")}/sessions/s1/ws`,
    token: RUNNER_TOKEN,
    stateDir: join(folder, "runner"),
  })
  onTestFinished(async () => {
    await runner.stop()
    await host.stop()
    await rm(folder, { recursive: true, force: true })
  })
  expect(await failureOf(runner.uplink.request("workspace-urls", { manifest: "get" }))).toContain(
    "S3_ENDPOINT",
  )
})
