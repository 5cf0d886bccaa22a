/** WebSockets through the gateway, which joins the two sockets as bytes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createServer, type Server, type Socket } from "node:net"
import type { AddressInfo } from "node:net"
import { WebSocketServer, WebSocket as WsClient } from "ws"
import { startApart } from "../separate-process.ts"
import { untilStill } from "../../../kit/until-still.ts"
import { untilTrue } from "../../../kit/until-true.ts"
import { api, logIn, makeToken, startTestGateway, type TestGateway } from "../kit.ts"

const MB = 1024 * 1024
let backend: WebSocketServer
let port = 0
let gateway: TestGateway
let cookie: string
let upgradeHeaders: Record<string, unknown> = {}

beforeAll(async () => {
  backend = new WebSocketServer({
    port: 0,
    host: "127.0.0.1",
    perMessageDeflate: true,
    handleProtocols: (offered) => (offered.has("tty") ? "tty" : ([...offered][0] ?? false)),
  })
  await new Promise((resolve) => backend.once("listening", resolve))
  port = (backend.address() as AddressInfo).port
  backend.on("connection", (socket, request) => {
    upgradeHeaders = request.headers
    socket.on("error", () => {})
    socket.on("message", (data: Buffer, binary) => {
      const text = data.toString()
      if (text.startsWith("close ")) return socket.close(Number(text.slice(6)), "as asked")
      if (text === "vanish") return socket.terminate()
      if (text === "where") return socket.send(request.url ?? "")
      socket.send(data, { binary })
    })
  })
  gateway = startTestGateway({ backends: { vscode: port, vnc: port, ttyd: 9 } })
  cookie = await logIn(gateway)
})

afterAll(async () => {
  for (const client of backend.clients) client.terminate()
  backend.close()
  await gateway.stop()
})

const open = async (
  path: string,
  protocols: string[] = [],
  headers: Record<string, string> = {},
) => {
  const socket = new WsClient(`ws://127.0.0.1:${gateway.port}${path}`, protocols, {
    headers: { cookie, ...headers },
  })
  await new Promise((resolve, reject) => {
    socket.once("open", resolve)
    socket.once("error", reject)
  })
  return socket
}

const next = (socket: WsClient): Promise<Buffer> =>
  new Promise((resolve) => socket.once("message", (data) => resolve(data as Buffer)))

const closed = (socket: WsClient): Promise<number> =>
  new Promise((resolve) => socket.once("close", (code) => resolve(code)))

test("text, bytes and fragments pass in both directions", async () => {
  const socket = await open("/vscode/x?a=1")
  const echoed = next(socket)
  socket.send("where")
  expect(String(await echoed)).toBe("/x?a=1")
  const large = Buffer.alloc(3 * MB, 7)
  const back = next(socket)
  socket.send(large.subarray(0, MB), { fin: false })
  socket.send(large.subarray(MB), { fin: true })
  expect((await back).equals(large)).toBe(true)
  socket.close()
  await closed(socket)
})

test.each(["tty", "binary", "vite-hmr"])(
  "the subprotocol %s is what the backend chooses",
  async (name) => {
    const socket = await open("/vscode/", [name])
    expect(socket.protocol).toBe(name)
    socket.terminate()
  },
)

test("extensions are negotiated between the client and the backend", async () => {
  const socket = await open("/vscode/")
  expect(socket.extensions).toContain("permessage-deflate")
  socket.terminate()
})

test.each([1000, 1001, 1008, 1011, 3000, 4999])(
  "close code %d arrives as it was sent",
  async (code) => {
    const socket = await open("/vscode/")
    socket.send(`close ${code}`)
    expect(await closed(socket)).toBe(code)
  },
)

test("a backend that disconnects ends the client's connection", async () => {
  const socket = await open("/vscode/")
  socket.send("vanish")
  expect(await closed(socket)).toBe(1006)
})

test("the person's cookie and token do not reach the backend", async () => {
  const socket = await open(`/vscode/?token=${makeToken()}`, [], {
    cookie: `a=1; ${cookie}`,
    authorization: `Bearer ${makeToken()}`,
  })
  expect(upgradeHeaders["cookie"]).toBe("a=1")
  expect(upgradeHeaders["authorization"]).toBeUndefined()
  expect(upgradeHeaders["host"]).toBe(`localhost:${port}`)
  socket.terminate()
})

test("a token without a cookie opens a WebSocket, and the response sets the cookie", async () => {
  const socket = new WsClient(`ws://127.0.0.1:${gateway.port}/vscode/?token=${makeToken()}`)
  const headers = await new Promise<Record<string, unknown>>((resolve) =>
    socket.once("upgrade", (response) => resolve(response.headers)),
  )
  expect(String(headers["set-cookie"])).toContain("Max-Age=43200")
  socket.terminate()
})

const refusedWith = (path: string, headers: Record<string, string>): Promise<number> =>
  new Promise((resolve) => {
    const socket = new WsClient(`ws://127.0.0.1:${gateway.port}${path}`, { headers })
    socket.once("unexpected-response", (_request, response) => resolve(response.statusCode ?? 0))
    socket.once("open", () => resolve(101))
    socket.on("error", () => {})
  })

test("a WebSocket without a credential or without a backend is refused", async () => {
  expect(await refusedWith("/vscode/", {})).toBe(401)
  expect(await refusedWith("/ttyd/ws", { cookie })).toBe(502)
  expect(await refusedWith("/t/none/ws", { cookie })).toBe(404)
})

describe("the protocol of a tunnel", () => {
  test("a tunnel refuses the protocol that it is not registered for", async () => {
    const other = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request, server) => (server.upgrade(request) ? undefined : new Response("plain")),
      websocket: { message: () => {} },
    })
    const plain = async (name: string) =>
      (await fetch(`${gateway.url}/t/${name}/`, { headers: { cookie } })).status
    for (const [name, protocol, http, ws] of [
      ["h", "http", 200, 403],
      ["w", "ws", 426, 101],
      ["a", "auto", 200, 101],
    ] as const) {
      await api(gateway, "POST", "/tunnels", { name, port: other.port, protocol })
      expect([await plain(name), await refusedWith(`/t/${name}/`, { cookie })]).toEqual([http, ws])
    }
    await other.stop(true)
  })
})

describe("the peculiarities of backends", () => {
  let raw: Server
  let rawGateway: TestGateway
  let rawCookie = ""
  let sockets: Socket[] = []
  let said: (socket: Socket) => void = () => {}
  const ACCEPTED =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"

  beforeAll(async () => {
    raw = createServer((socket) => {
      sockets.push(socket)
      socket.on("error", () => {})
      socket.once("data", (bytes) => {
        if (bytes.toString("latin1").includes("Upgrade: websocket")) said(socket)
        else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      })
    })
    raw.listen(0, "127.0.0.1")
    await new Promise((resolve) => raw.once("listening", resolve))
    const rawPort = (raw.address() as AddressInfo).port
    rawGateway = startTestGateway({ backends: { vscode: rawPort, vnc: rawPort, ttyd: rawPort } })
    rawCookie = await logIn(rawGateway)
  })
  afterAll(async () => {
    for (const socket of sockets) socket.destroy()
    sockets = []
    raw.close()
    await rawGateway.stop()
  })

  /** Opens a WebSocket without a library and returns every byte after the head, until the end. */
  const listenRaw = (early = ""): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      let all = Buffer.alloc(0)
      const head = `GET /vnc/websockify HTTP/1.1\r\nHost: s\r\nCookie: ${rawCookie}\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n`
      Bun.connect({
        hostname: "127.0.0.1",
        port: rawGateway.port,
        socket: {
          open: (socket) => void socket.write(head + early),
          data: (_, bytes) => void (all = Buffer.concat([all, bytes])),
          close: () => resolve(all.subarray(all.indexOf("\r\n\r\n") + 4)),
        },
      }).catch(reject)
    })

  test("websockify's close code 1005 passes unchanged", async () => {
    const frame = Buffer.from([0x88, 0x02, 0x03, 0xed])
    said = (socket) => void socket.end(Buffer.concat([Buffer.from(ACCEPTED), frame]))
    expect((await listenRaw()).equals(frame)).toBe(true)
  })

  test("the end of ttyd's connection without a close frame passes unchanged", async () => {
    said = (socket) => void socket.end(`${ACCEPTED}\x81\x02hi`, "latin1")
    expect((await listenRaw()).toString("latin1")).toBe("\x81\x02hi")
  })

  test("frames that are sent together with the head reach the backend", async () => {
    said = (socket) => {
      socket.write(ACCEPTED)
      socket.once("data", (bytes) => void socket.end(bytes))
    }
    expect((await listenRaw("early frame")).toString()).toBe("early frame")
  })

  test("a head that arrives byte by byte is read", async () => {
    const spell = async (socket: Socket) => {
      socket.setNoDelay(true)
      for (const byte of ACCEPTED) {
        socket.write(byte)
        // Sleep: each byte is a write of its own.
        await Bun.sleep(0)
      }
      socket.end("whole")
    }
    said = (socket) => void spell(socket)
    expect((await listenRaw()).toString()).toBe("whole")
  })
})

test("a client that stalls on a stream of 400 MiB until the backend waits loses no byte, and the gateway stays below 100 MB", async () => {
  const total = 400 * MB
  const block = Buffer.alloc(64 * 1024).map((_, at) => at % 256)
  let sent = 0
  const flood = createServer((socket) => {
    socket.on("error", () => {})
    socket.once("data", (bytes) => {
      if (!bytes.toString("latin1").includes("Upgrade: websocket")) {
        return socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      }
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
      )
      const pour = () => {
        while (sent < total) {
          sent += block.length
          if (!socket.write(block)) return socket.once("drain", pour)
        }
        socket.end()
      }
      pour()
    })
  })
  flood.listen(0, "127.0.0.1")
  await new Promise((resolve) => flood.once("listening", resolve))
  const apart = await startApart((flood.address() as AddressInfo).port)
  let received = 0
  let wrong = 0
  let headBytes = -1
  let isStalled = false
  const over = Promise.withResolvers<void>()
  const check = (bytes: Buffer) => {
    for (let at = 0; at < bytes.length; at += 4099) {
      if (bytes[at] !== (received + at) % 256) wrong += 1
    }
    received += bytes.length
  }
  const client = await Bun.connect({
    hostname: "127.0.0.1",
    port: apart.port,
    socket: {
      data: (socket, bytes) => {
        if (headBytes === -1) {
          headBytes = bytes.indexOf("\r\n\r\n") + 4
          check(bytes.subarray(headBytes))
        } else check(bytes)
        if (received < MB || isStalled) return
        isStalled = true
        socket.pause()
      },
      close: () => over.resolve(),
      error: (_, error) => over.reject(error),
    },
  })
  client.write(
    `GET /vnc/ws HTTP/1.1\r\nHost: s\r\nCookie: ${apart.cookie}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n`,
  )
  await untilTrue(() => isStalled, "the stall")
  await untilStill(() => sent, "backend that waits")
  expect(sent).toBeLessThan(50 * MB)
  client.resume()
  await over.promise
  expect(received).toBe(total)
  expect(wrong).toBe(0)
  expect(apart.peakMb()).toBeLessThan(100)
  await apart.stop()
  flood.close()
})
