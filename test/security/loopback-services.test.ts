/** Services without a password accept WebSockets of the gateway only, not those of a page in the sandbox's browser. */
import { expect, test } from "bun:test"
import { WebSocket } from "ws"
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
