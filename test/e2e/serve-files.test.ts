/**
 * Files and websites of a sandbox through the fleet's HTTP API, shown by their effect in a real local sandbox. The tests share one
 * fleet and one object storage; each has a session of its own, those of a clone share one.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { type ServeStack, startServeStack } from "../../src/cli/serve-stack.ts"
import { createLocalProvider } from "../../src/fleet/providers/local.ts"
import { openSqliteStore } from "../../src/fleet/store/sqlite-store.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { CLIENT_TOKEN } from "../hub/kit/hub.ts"
import { type GitServer, startGitServer } from "../kit/git-server.ts"
import { silentLog } from "../kit/log.ts"
import { createSandbox, runnerFromSource, type Sandbox } from "../kit/runner.ts"
import { type S3Server, startS3Server } from "../kit/s3-server.ts"
import { untilTrue } from "../kit/until-true.ts"

let place: Sandbox
let s3: S3Server
let stack: ServeStack
/** Sessions of the tests that end with them. */
const sessions: string[] = []

const localRoot = () => join(place.root, "fleet")

beforeAll(async () => {
  s3 = startS3Server()
  place = await createSandbox({ url: "ws://127.0.0.1:1/", token: "-" })
  // The agent plays no part here.
  const agent = join(place.root, "no-agent")
  writeFileSync(agent, "#!/bin/sh\nexec sleep 100000\n")
  chmodSync(agent, 0o755)
  stack = await startServeStack({
    provider: createLocalProvider({
      root: localRoot(),
      self: runnerFromSource,
      clock: systemClock,
    }),
    store: openSqliteStore(":memory:"),
    version: "0.2.0",
    idleMs: 900_000,
    pausedMs: undefined,
    minimumVersion: undefined,
    configure: async () => {},
    hub: {
      stateDir: join(place.root, "hub"),
      workDir: place.workDir,
      port: 0,
      environment: {
        ...place.environment,
        OPENCODE_BIN: agent,
        S3_ENDPOINT: s3.endpoint,
        S3_REGION: s3.region,
        S3_ACCESS_KEY_ID: s3.credentials.accessKeyId,
        S3_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
      },
      clock: systemClock,
      log: silentLog,
      clientToken: CLIENT_TOKEN,
    },
  })
})
afterEach(async () => {
  s3.intercept = undefined
  for (const session of sessions.splice(0))
    await call("POST", `/api/sandbox/${session}/terminate?wait=1`)
})
afterAll(async () => {
  await stack.stop()
  await s3.stop()
  await place.remove()
})

const call = async (
  method: string,
  path: string,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
) => {
  const response = await fetch(`${stack.hub.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${CLIENT_TOKEN}`, ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
  const said = await response.text()
  const parsed = said.startsWith("{") ? (JSON.parse(said) as object) : { text: said }
  return {
    status: response.status,
    headers: response.headers,
    body: parsed as Record<string, unknown>,
  }
}
/** A new session with a running sandbox. */
const open = async (thread: string) => {
  const made = await call("POST", `/api/threads/${thread}/resolve?wait=1`)
  const session = String(made.body["sessionId"])
  sessions.push(session)
  return {
    of: (verb: string) => `/api/sandbox/${session}/${verb}`,
    workspace: (file: string) =>
      join(localRoot(), "files", encodeURIComponent(session), "workspace", file),
  }
}

test("the workspace is saved to object storage, and missing files come back without changing others", async () => {
  const { of, workspace } = await open("saved")
  mkdirSync(workspace("notes"))
  writeFileSync(workspace("notes/heron.txt"), "grey\n")
  writeFileSync(workspace("notes/stork.txt"), "white\n")
  const saved = await call("POST", of("sync"))
  expect(saved).toMatchObject({ status: 200, body: { files: 2, uploaded: 2 } })
  expect([...s3.objects.keys()].some((key) => key.endsWith("/manifest.json"))).toBe(true)

  rmSync(workspace("notes/heron.txt"))
  writeFileSync(workspace("notes/stork.txt"), "black\n")
  // A sleeping sandbox is woken.
  await call("POST", of("pause?wait=1"))
  const restored = await call("POST", of("restore"))
  expect(restored).toMatchObject({ status: 200, body: { files: 1 } })
  expect(readFileSync(workspace("notes/heron.txt"), "utf8")).toBe("grey\n")
  expect(readFileSync(workspace("notes/stork.txt"), "utf8")).toBe("black\n")
})

test("storage that does not answer is an error that says so, and the files stay", async () => {
  const { of, workspace } = await open("refused")
  mkdirSync(workspace("notes"))
  writeFileSync(workspace("notes/heron.txt"), "grey\n")
  expect((await call("POST", of("sync"))).status).toBe(200)
  s3.intercept = async () => new Response("", { status: 403 })
  const refused = await call("POST", of("restore"))
  expect(refused).toMatchObject({ status: 502, body: { code: "not-restored" } })
  expect(existsSync(workspace("notes/heron.txt"))).toBe(true)
})

test("what the agent shows is listed with its size, and its content can be read", async () => {
  const { of, workspace } = await open("shown")
  expect((await call("GET", of("artifacts"))).body).toEqual({ artifacts: [] })
  mkdirSync(workspace("output/display/deep"), { recursive: true })
  writeFileSync(workspace("output/display/deep/nest.txt"), "twig\n")
  writeFileSync(workspace("output/hidden.txt"), "not shown\n")
  const { body } = await call("GET", of("artifacts"))
  expect(body).toEqual({
    artifacts: [{ path: "output/display/deep/nest.txt", size: 5, modified: expect.any(String) }],
  })
  const content = await call("GET", of("files/content?path=output/display/deep/nest.txt"))
  expect(content.body["text"]).toBe("twig\n")
})

describe("a session with a repository, whose agent works in the clone", () => {
  let git: GitServer
  const id = "with-a-clone"
  const clone = (file: string) =>
    join(localRoot(), "files", encodeURIComponent(id), "workspace", "nest", file)
  let sandboxId = ""

  beforeAll(async () => {
    git = await startGitServer()
    await git.commit("nest", "twig.txt", "brown\n")
    const created = await call("POST", "/create-session", {
      sessionId: id,
      userId: "ada",
      doWsUrl: "ws://127.0.0.1:1/",
      runnerToken: "a runner token of the caller",
      jwtSecret: "a gateway key of the caller",
      envVars: { REPO_URL: git.url("nest") },
    })
    sandboxId = String(created.body["sandboxId"])
    await untilTrue(() => existsSync(clone("twig.txt")), "the clone")
  })
  afterAll(async () => {
    await call("POST", "/terminate-session", { sandboxId })
    await git.stop()
  })

  test("what the agent shows is found in the clone, and its content can be read by its path", async () => {
    mkdirSync(clone("output/display/deep"), { recursive: true })
    writeFileSync(clone("output/display/deep/egg.txt"), "blue\n")
    const { body } = await call("GET", `/api/sandbox/${id}/artifacts`)
    const path = realpathSync(clone("output/display/deep/egg.txt"))
    expect(body).toEqual({ artifacts: [{ path, size: 5, modified: expect.any(String) }] })
    const query = encodeURIComponent(path)
    const content = await call("GET", `/api/sandbox/${id}/files/content?path=${query}`)
    expect(content.body["text"]).toBe("blue\n")
  })

  test("an upload is answered with a path that the agent and the API can read, and the clone stays clean", async () => {
    const form = new FormData()
    form.append("file", new File(["of the user"], "feather.txt"))
    const uploaded = await fetch(`${stack.hub.url}/api/sandbox/${id}/uploads`, {
      method: "POST",
      headers: { authorization: `Bearer ${CLIENT_TOKEN}` },
      body: form,
    })
    const { paths } = (await uploaded.json()) as { readonly paths: readonly string[] }
    expect(paths).toEqual([realpathSync(clone("../uploads/feather.txt"))])
    const command = "cat $0 && git status --porcelain uploads"
    const ran = await call("POST", `/api/sandbox/${id}/exec`, {
      command: "sh",
      args: ["-c", command, paths[0]],
      cwd: "nest",
    })
    expect(ran.body).toMatchObject({ exitCode: 0, stdout: "of the user" })
    const query = encodeURIComponent(paths[0] ?? "")
    const content = await call("GET", `/api/sandbox/${id}/files/content?path=${query}`)
    expect(content.body["text"]).toBe("of the user")
  })
})

test("a website is installed, served and restarted, and a repeated call starts no second one", async () => {
  const { of, workspace } = await open("website")
  const bad = await call("POST", of("bootstrap-website"), { theme: "dark" })
  expect(bad).toMatchObject({ status: 400, body: { code: "bad-request" } })
  mkdirSync(workspace("output"))
  writeFileSync(workspace("output/notes.txt"), "no website\n")
  const nothing = await call("POST", of("bootstrap-website"), { directory: "output" })
  expect(nothing.status).toBe(400)

  const order = { template: "static", directory: "site", waitSeconds: 60 }
  const key = { "idempotency-key": "first" }
  const made = await call("POST", of("bootstrap-website"), order, key)
  expect(made.status).toBe(200)
  const { port, containerUrl, service } = made.body as {
    readonly port: number
    readonly containerUrl: string
    readonly service: { readonly name: string; readonly pid: number }
  }
  expect(service.name).toBe("web")
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toContain("New website")
  // People reach it through the sandbox's gateway, which asks who they are.
  const gateway = containerUrl.replace(/\/t\/preview\/$/, "")
  expect((await fetch(`${gateway}/health`)).status).toBe(200)
  expect((await fetch(containerUrl, { redirect: "manual" })).status).toBe(401)

  const again = await call("POST", of("bootstrap-website"), order, key)
  expect(again.headers.get("idempotent-replay")).toBe("true")
  expect(again.body).toEqual(made.body)

  const restarted = await call("POST", of("restart-dev-server"), {})
  expect(restarted.status).toBe(200)
  const now = restarted.body as {
    readonly port: number
    readonly service: { readonly pid: number }
  }
  expect(now.service.pid).not.toBe(service.pid)
  expect(await (await fetch(`http://127.0.0.1:${now.port}/`)).text()).toContain("New website")
})
