/** The routes of services: who may call them, and what they do to real processes. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { untilTrue } from "../../kit/until-true.ts"
import { createTestServices, type TestServices } from "../sandbox/services/kit.ts"
import {
  API_TOKEN,
  logIn,
  makeControlToken,
  makeToken,
  startTestGateway,
  type TestGateway,
} from "./kit.ts"

let kit: TestServices
let gateway: TestGateway
beforeEach(() => {
  kit = createTestServices()
  gateway = startTestGateway({ services: kit.ports })
})
afterEach(async () => {
  await gateway.stop()
  await kit.end()
})

const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${API_TOKEN}`, ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })

interface Website {
  readonly service: { readonly pid: number }
  readonly port: number
  readonly containerUrl: string
}
const json = async (answer: Promise<Response>): Promise<Website> =>
  JSON.parse(await (await answer).text())

const pageAt = async (port: number) => (await fetch(`http://127.0.0.1:${port}/`)).text()

test("a service is started, listed, exposed and stopped over HTTP", async () => {
  const started = await call("POST", "/api/services", { name: "a", command: "exec sleep 1000" })
  expect(started.status).toBe(200)
  const list = await (await call("GET", "/api/services")).json()
  expect(list).toMatchObject({ services: [{ name: "a", cwd: "." }], exposedPort: null })
  const exposed = await (await call("POST", "/api/expose", { port: 4567 })).json()
  expect(exposed).toEqual({
    ok: true,
    port: 4567,
    containerUrl: "http://127.0.0.1:9000/t/preview/",
  })
  expect(await (await call("GET", "/api/services")).json()).toMatchObject({ exposedPort: 4567 })
  expect((await call("DELETE", "/api/services/a")).status).toBe(200)
  expect((await call("DELETE", "/api/services/b")).status).toBe(404)
  expect(kit.services.find("a")?.status).toBe("stopped")
})

test("services open with the tool's token, a person's token or a control token, and with nothing else", async () => {
  const status = async (headers: Record<string, string>) =>
    (await fetch(`${gateway.url}/api/services`, { headers })).status
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  expect(await status(bearer(API_TOKEN))).toBe(200)
  expect(await status(bearer(makeToken()))).toBe(200)
  expect(await status(bearer(makeControlToken()))).toBe(200)
  expect(await status({})).toBe(401)
  expect(await status(bearer("wrong"))).toBe(401)
  const env = (token: string) =>
    call("POST", "/api/env/scrub", {}, bearer(token)).then((answer) => answer.status)
  expect(await env(makeControlToken())).toBe(200)
  expect(await env(makeToken())).toBe(401)
})

test("a page of another site cannot start a service with a person's cookie", async () => {
  const cookie = await logIn(gateway)
  const start = (origin: string) =>
    fetch(`${gateway.url}/api/services`, {
      method: "POST",
      headers: { cookie, origin },
      body: JSON.stringify({ name: "a", command: "exec sleep 1000" }),
    }).then((answer) => answer.status)
  expect(await start("https://evil.example")).toBe(403)
  expect(kit.services.list()).toEqual([])
  expect(await start(gateway.url)).toBe(200)
})

test("the log stream begins with the last lines and continues with new ones", async () => {
  await call("POST", "/api/services", {
    name: "a",
    command: "echo first; until [ -e go ]; do sleep 0.02; done; echo tick; exec sleep 1000",
  })
  await untilTrue(
    async () => String(await kit.services.logOf("a")?.tail(100)) === "first\n",
    "the first line in the log",
  )
  const stream = await call("GET", "/api/logs/a")
  expect(stream.headers.get("content-type")).toBe("text/event-stream")
  let text = ""
  for await (const bytes of stream.body ?? []) {
    text += Buffer.from(bytes).toString()
    if (text.includes('"initial"')) await writeFile(join(kit.root, "go"), "")
    if (text.includes('"append"')) break
  }
  const events = text
    .split("\n\n")
    .filter(Boolean)
    .map((event) => JSON.parse(event.slice("data: ".length)))
  expect(events[0]).toMatchObject({ type: "initial" })
  expect(events[0].content).toBe("first\n")
  expect(events[1]).toEqual({ type: "append", content: "tick\n" })
  expect((await call("GET", "/api/logs/b")).status).toBe(404)
  expect((await call("POST", "/api/logs/a")).status).toBe(405)
})

test("a website is created from the template, served, exposed, and served again after a restart", async () => {
  const made = await json(call("POST", "/api/website", { directory: "site", template: "static" }))
  expect(made).toMatchObject({ service: { name: "web" }, port: kit.usualPort })
  expect(made.containerUrl).toBe("http://127.0.0.1:9000/t/preview/")
  expect(await pageAt(made.port)).toContain("New website")
  expect((await fetch(`http://127.0.0.1:${made.port}/none`)).status).toBe(404)
  const again = await json(call("POST", "/api/website/restart"))
  expect(again.port).toBe(kit.usualPort)
  expect(again.service.pid).not.toBe(made.service.pid)
  expect(await readFile(join(kit.root, "site/package.json"), "utf8")).toContain("server.js")
  const twice = await call("POST", "/api/website", { directory: "site", template: "static" })
  expect(twice.status).toBe(400)
  expect(await twice.text()).toContain("exists already")
})

test("a website whose usual port is taken gets a free port, which a restart keeps and a new order of the website too", async () => {
  const other = Bun.serve({
    port: kit.usualPort,
    hostname: "127.0.0.1",
    fetch: () => new Response("another program"),
  })
  try {
    const made = await json(call("POST", "/api/website", { directory: "site", template: "static" }))
    expect(made.port).toBeNumber()
    expect(made.port).not.toBe(kit.usualPort)
    expect(await pageAt(made.port)).toContain("New website")
    expect(await pageAt(kit.usualPort)).toBe("another program")
    const exposed = await (await call("GET", "/api/services")).json()
    expect(exposed).toMatchObject({ exposedPort: made.port })
    const again = await json(call("POST", "/api/website/restart"))
    expect(again.port).toBe(made.port)
    expect(again.service.pid).not.toBe(made.service.pid)
    expect(await pageAt(again.port)).toContain("New website")
    const replaced = await json(call("POST", "/api/website", { directory: "site" }))
    expect(replaced.port).toBe(made.port)
    expect(await pageAt(replaced.port)).toContain("New website")
  } finally {
    await other.stop(true)
  }
})

test("a website whose port another program takes between two starts continues on a free port", async () => {
  const made = await json(call("POST", "/api/website", { directory: "site", template: "static" }))
  expect(await (await call("DELETE", "/api/services/web")).json()).toEqual({ ok: true })
  const other = Bun.serve({
    port: made.port,
    hostname: "127.0.0.1",
    fetch: () => new Response("another program"),
  })
  try {
    const again = await json(call("POST", "/api/website/restart"))
    expect(again.port).toBeNumber()
    expect(again.port).not.toBe(made.port)
    expect(await pageAt(again.port)).toContain("New website")
  } finally {
    await other.stop(true)
  }
})

test("a folder that is not a website is refused with what to do", async () => {
  const answer = await call("POST", "/api/website", { directory: "." })
  expect(answer.status).toBe(400)
  expect(await answer.text()).toContain("there is no package.json in the folder")
})

test("the operations of a setup session exist only there", async () => {
  const files = [{ path: "a.env", variables: { A: "1" } }]
  expect((await call("POST", "/api/setup/env", { files })).status).toBe(404)
  const setup = createTestServices({ isSetup: true })
  const other = startTestGateway({ services: setup.ports })
  const save = (path: string, body: unknown) =>
    fetch(`${other.url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${API_TOKEN}` },
      body: JSON.stringify(body),
    }).then((response) => response.status)
  expect(await save("/api/setup/env", { files })).toBe(200)
  const services = [{ name: "web", command: "exec sleep 1000" }]
  expect(await save("/api/setup/services", { services })).toBe(200)
  expect(await readFile(join(setup.root, "a.env"), "utf8")).toBe("A=1\n")
  expect(setup.services.find("web")?.status).toBe("stopped")
  await setup.services.resume()
  expect(setup.services.find("web")?.pid).toBeNumber()
  await other.stop()
  await setup.end()
})
