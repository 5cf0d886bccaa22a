/** Services without a password accept WebSockets of the gateway only, not those of a page in the sandbox's browser. */
import { expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { WebSocket } from "ws"
import { serviceSockets } from "../../src/runner/host/service-sockets.ts"
import { servicesOf } from "../../src/runner/host/service-table.ts"
import { logIn, startTestGateway } from "../runner/gateway/kit.ts"

const ports = { vscode: 4001, vnc: 4002, rawVnc: 4003, ttyd: 4004 }

const commandOf = (name: string): string =>
  servicesOf({ display: ":1", workDir: "/work", ports })
    .find((service) => service.name === name)
    ?.command.join(" ") ?? ""

test("websockify and ttyd are started with a check of the Origin", () => {
  expect(commandOf("websockify")).toContain(
    "--auth-plugin ExpectOrigin --auth-source http://localhost:4002",
  )
  expect(commandOf("ttyd")).toContain(" -O ")
})

test("ttyd and code-server listen on Unix sockets, which no page of a browser reaches under any name", () => {
  const sockets = serviceSockets("/var/lib/sandpiper")
  const services = servicesOf({ display: ":1", workDir: "/work", ports, sockets })
  for (const name of ["ttyd", "code-server"]) {
    const service = services.find((one) => one.name === name)
    const line = service?.command.join(" ") ?? ""
    const path = `/var/lib/sandpiper/session/services/${name}.sock`
    expect(line).toContain(path)
    expect(line).not.toMatch(/127\.0\.0\.1|400\d/)
    expect(service?.answersOn).toEqual({ socket: path })
  }
  expect(serviceSockets(`/${"long/".repeat(30)}`)).toBeUndefined()
})

test("the gateway reaches a backend at its Unix socket and never falls back to its port, where the agent may listen", async () => {
  const folder = await mkdtemp(join(tmpdir(), "service-sockets-"))
  const path = join(folder, "ttyd.sock")
  const impostor = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("agent") })
  const gateway = startTestGateway({
    backends: { vscode: 1, vnc: 2, ttyd: impostor.port ?? 0 },
    backendSockets: new Map([[impostor.port ?? 0, path]]),
  })
  const real = Bun.serve({
    unix: path,
    fetch: (request, server) =>
      server.upgrade(request, { data: undefined }) ? undefined : new Response("terminal"),
    websocket: { message: (socket, text) => void socket.send(`echo ${text.toString()}`) },
  })
  const cookie = await logIn(gateway, "/ttyd/")
  const page = await fetch(`${gateway.url}/ttyd/`, { headers: { cookie } })
  expect(await page.text()).toBe("terminal")
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/ttyd/ws`, { headers: { cookie } })
  await new Promise((resolve) => socket.once("open", resolve))
  const answer = new Promise((resolve) =>
    socket.once("message", (data: Buffer) => resolve(data.toString())),
  )
  socket.send("hello")
  expect(await answer).toBe("echo hello")
  socket.terminate()
  await real.stop(true)
  await rm(path, { force: true })
  const gone = await fetch(`${gateway.url}/ttyd/`, { headers: { cookie } })
  expect(gone.status).toBe(502)
  expect(await gone.text()).not.toBe("agent")
  await gateway.stop()
  await impostor.stop(true)
  await rm(folder, { recursive: true })
})

test.each(["vnc", "ttyd"] as const)(
  "the gateway sends the Origin that %s accepts in place of the client's",
  async (name) => {
    const seen: (string | null)[] = []
    const backend = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request, server) => {
        seen.push(`${request.headers.get("host")} ${request.headers.get("origin")}`)
        return server.upgrade(request, { data: undefined }) ? undefined : new Response("page")
      },
      websocket: { message: () => {} },
    })
    const gateway = startTestGateway({
      backends: { vscode: 1, vnc: 2, ttyd: 3, [name]: backend.port },
    })
    const cookie = await logIn(gateway, `/${name}/`)
    seen.length = 0
    const origin = `http://127.0.0.1:${gateway.port}`
    for (const headers of [{ cookie, origin }, { cookie }]) {
      const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/${name}/ws`, { headers })
      await new Promise((resolve) => socket.once("open", resolve))
      socket.terminate()
    }
    const own = `localhost:${backend.port}`
    expect(seen).toEqual([`${own} http://${own}`, `${own} http://${own}`])
    const foreign = new WebSocket(`ws://127.0.0.1:${gateway.port}/${name}/ws`, {
      headers: { cookie, origin: "http://evil.example" },
    })
    const refused = await new Promise<Error>((resolve) => foreign.once("error", resolve))
    expect(refused.message).toContain("403")
    await gateway.stop()
    await backend.stop(true)
  },
)
