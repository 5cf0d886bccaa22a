/** The real websockify with its command line of the sandbox: only the gateway can open a WebSocket to the screen. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { TCPSocketListener } from "bun"
import { WebSocket } from "ws"
import { servicesOf } from "../../src/runner/host/service-table.ts"
import { logIn, startTestGateway, type TestGateway } from "../runner/gateway/kit.ts"
import { freePort } from "../kit/free-port.ts"
import { listening, start } from "./kit.ts"

const BANNER = "RFB 003.008\n"
const [vnc, rawVnc] = [freePort(), freePort()]
let screen: TCPSocketListener<undefined>
let websockify: { stop: () => Promise<void> }
let gateway: TestGateway

beforeAll(async () => {
  // The first bytes of a VNC server are enough to see who reaches it.
  screen = Bun.listen({
    hostname: "127.0.0.1",
    port: rawVnc,
    socket: { open: (socket) => void socket.write(BANNER), data: () => {} },
  })
  const services = servicesOf({
    display: ":99",
    workDir: "/",
    ports: { vscode: 1, vnc, rawVnc, ttyd: 3 },
  })
  const { command } = services.find(({ name }) => name === "websockify") ?? { command: [] }
  // This machine may have no noVNC; its files are not needed.
  websockify = start(command.map((word) => (word === "/usr/share/novnc" ? "/tmp" : word)))
  gateway = startTestGateway({ backends: { vscode: 1, vnc, ttyd: 3 } })
  await listening(vnc)
})

afterAll(async () => {
  await gateway?.stop()
  await websockify?.stop()
  screen?.stop(true)
})

const firstBytes = (url: string, headers: Record<string, string>): Promise<string> =>
  new Promise((resolve) => {
    const socket = new WebSocket(url, { headers })
    socket.once("message", (data: Buffer) => {
      resolve(data.toString())
      socket.close()
    })
    socket.once("error", (error) => resolve(error.message))
    socket.once("close", () => resolve("closed"))
  })

test.each([
  ["of another site", { origin: "http://evil.example" }],
  ["of a page on this machine", { origin: "http://127.0.0.1:3000" }],
  ["of a name that leads to this machine", { origin: `http://rebound.example:${vnc}` }],
  ["that is missing", {}],
])(
  "a WebSocket to websockify with an Origin %s does not reach the screen",
  async (_what, headers) => {
    expect(await firstBytes(`ws://127.0.0.1:${vnc}/websockify`, headers)).not.toContain("RFB")
  },
  60_000,
)

test("a person reaches the screen through the gateway", async () => {
  const cookie = await logIn(gateway, "/vnc/")
  const origin = `http://127.0.0.1:${gateway.port}`
  const url = `ws://127.0.0.1:${gateway.port}/vnc/websockify`
  expect(await firstBytes(url, { cookie, origin })).toBe(BANNER)
})
