/** The gateway after its sandbox was restored: old connections are dropped, new ones work, and API calls continue. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { type AddressInfo, createServer, type Server, type Socket } from "node:net"
import { type WebSocket as ServerSocket, WebSocketServer, WebSocket } from "ws"
import { createAuth } from "../../../src/runner/gateway/auth.ts"
import type { GatewayOptions } from "../../../src/runner/gateway/gateway.ts"
import { parseRequestHead } from "../../../src/runner/gateway/http/head.ts"
import { untilStill } from "../../kit/until-still.ts"
import {
  api,
  logIn,
  makeToken,
  SECRET,
  SESSION,
  startTestGateway,
  type TestGateway,
} from "./kit.ts"
import { untilTrue } from "../../kit/until-true.ts"

const FRESH = "the key after the restore"
let sockets: WebSocketServer
let pages: Bun.Server<undefined>
let gateway: TestGateway
let cookie: string
/** Paths of streaming requests whose client is gone. */
let left: string[] = []
let more: (() => unknown)[] = []

const echoServer = async (): Promise<WebSocketServer> => {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" })
  await new Promise((resolve) => server.once("listening", resolve))
  server.on("connection", (socket: ServerSocket) => {
    socket.on("error", () => {})
    socket.on("message", (data) => socket.send(data as Buffer))
  })
  return server
}
const portOf = (server: { readonly address: () => unknown }): number =>
  (server.address() as AddressInfo).port

beforeEach(async () => {
  sockets = await echoServer()
  left = []
  pages = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: (request) => {
      const { pathname } = new URL(request.url)
      if (pathname !== "/stream") return new Response("a page")
      request.signal.addEventListener("abort", () => left.push(pathname))
      return new Response(
        new ReadableStream({ start: (controller) => controller.enqueue("data: first\n\n") }),
      )
    },
  })
  await start()
})

afterEach(async () => {
  for (const end of more) await end()
  more = []
  for (const client of sockets.clients) client.terminate()
  sockets.close()
  await pages.stop(true)
  await gateway.stop()
})

const start = async (change: Partial<GatewayOptions> = {}) => {
  gateway = startTestGateway({
    backends: { vscode: pages.port ?? 0, vnc: pages.port ?? 0, ttyd: portOf(sockets) },
    opencodePort: () => pages.port,
    ...change,
  })
  cookie = await logIn(gateway)
}

const open = async (path: string, given = cookie): Promise<WebSocket> => {
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}${path}`, {
    headers: { cookie: given },
  })
  more.push(() => socket.terminate())
  await new Promise((resolve, reject) => {
    socket.once("open", resolve)
    socket.once("error", reject)
  })
  return socket
}

const ending = (socket: WebSocket): Promise<string> =>
  new Promise((resolve) => socket.once("close", (code, why) => resolve(`${code} ${String(why)}`)))

const echo = (socket: WebSocket, text: string): Promise<string> =>
  new Promise((resolve) => {
    socket.once("message", (data) => resolve((data as Buffer).toString()))
    socket.send(text)
  })

const stream = async (path: string) => {
  const response = await fetch(`${gateway.url}${path}`, { headers: { cookie } })
  const reader = response.body?.getReader()
  await reader?.read()
  /** The next read: `more`, `ended`, or `cut` if the connection was reset. */
  return async (): Promise<string> => {
    try {
      return (await reader?.read())?.done === true ? "ended" : "more"
    } catch {
      return "cut"
    }
  }
}

const statusWith = async (given: string): Promise<number> =>
  (await fetch(`${gateway.url}/vscode/`, { headers: { cookie: given } })).status

const GONE = "1012 the sandbox was restored: connect again"

test("after a restore, open WebSockets are closed with a code and a reason, at both ends", async () => {
  const tunnel = await echoServer()
  more.push(() => tunnel.close())
  await api(gateway, "POST", "/tunnels", { name: "web", port: portOf(tunnel) })
  const before = await Promise.all([open("/ttyd/ws"), open("/t/web/ws")])
  expect(await echo(before[0], "hello")).toBe("hello")
  const ends = before.map(ending)
  gateway.afterRestore(FRESH)
  expect(await Promise.all(ends)).toEqual([GONE, GONE])
  await untilTrue(
    () => sockets.clients.size + tunnel.clients.size === 0,
    "end of the backends' sockets",
  )
})

test("after a restore with the same key, open WebSockets are closed as well", async () => {
  const ended = ending(await open("/ttyd/ws"))
  gateway.afterRestore(SECRET)
  expect(await ended).toBe(GONE)
})

test("after a restore, streaming responses are aborted and their backends notice", async () => {
  const onward = await Promise.all([stream("/vscode/stream"), stream("/opencode/stream")])
  gateway.afterRestore(FRESH)
  expect(await Promise.all(onward.map((next) => next()))).toEqual(["cut", "cut"])
  await untilTrue(() => left.length === 2, "end of the backend's answers")
})

test("connections that are opened after a restore are kept", async () => {
  const ended = ending(await open("/ttyd/ws"))
  gateway.afterRestore(FRESH)
  cookie = await freshCookie()
  const socket = await open("/ttyd/ws")
  await stream("/vscode/stream")
  expect(await ended).toBe(GONE)
  expect(await echo(socket, "still here")).toBe("still here")
  expect(left).toEqual([])
})

const freshCookie = async (): Promise<string> => {
  const response = await fetch(`${gateway.url}/vscode/?token=${makeToken({ secret: FRESH })}`, {
    redirect: "manual",
    headers: { accept: "text/html" },
  })
  return response.headers.get("set-cookie")?.split(";")[0] ?? ""
}

test("after a restore with a new key, cookies, tickets and tokens of the old key are refused and those of the new key are accepted", async () => {
  const issued = await api(gateway, "POST", "/tickets", { path: "/vscode/" })
  const { url } = (await issued.json()) as { url: string }
  expect(await statusWith(cookie)).toBe(200)
  gateway.afterRestore(FRESH)
  expect(await statusWith(cookie)).toBe(401)
  expect((await fetch(`${gateway.url}${url}`)).status).toBe(401)
  expect((await fetch(`${gateway.url}/vscode/?token=${makeToken()}`)).status).toBe(401)
  expect(await statusWith(await freshCookie())).toBe(200)
})

test("after a restore with the same key, a cookie stays valid, so that a page can reconnect", async () => {
  gateway.afterRestore(SECRET)
  expect(await statusWith(cookie)).toBe(200)
  expect(await echo(await open("/ttyd/ws"), "again")).toBe("again")
})

test("a token that is being verified while the key changes is refused", async () => {
  const auth = createAuth({ sessionId: SESSION, jwtSecret: SECRET, apiToken: "t", now: Date.now })
  const head = parseRequestHead("GET /vscode/ HTTP/1.1\r\nHost: s")
  const enter = (key: string) =>
    auth.guards.person(
      head,
      { path: "/vscode/", search: `?token=${makeToken({ secret: key })}` },
      "peer",
    )
  expect(await enter(SECRET)).toBeObject()
  const verdict = enter(SECRET)
  auth.changeJwtSecret(FRESH)
  expect(await verdict).toBe("invalid")
  expect(auth.sessions.size()).toBe(0)
  expect(await enter(FRESH)).toBeObject()
})

test("an API call that is waiting during a restore gets its response", async () => {
  await gateway.stop()
  const answer = Promise.withResolvers<Record<string, unknown>>()
  const asked = Promise.withResolvers<void>()
  await start({
    request: () => {
      asked.resolve()
      return answer.promise
    },
  })
  const call = api(gateway, "GET", "/child-sessions")
  await asked.promise
  gateway.afterRestore(FRESH)
  answer.resolve({ children: [{ id: "c1" }] })
  const response = await call
  expect(response.status).toBe(200)
  expect(await response.json()).toEqual({ children: [{ id: "c1" }] })
})

/** A backend that accepts every upgrade and then calls `say`. */
const rawBackend = async (say: (socket: Socket) => void): Promise<number> => {
  const server: Server = createServer((socket) => {
    socket.on("error", () => {})
    more.push(() => socket.destroy())
    socket.once("data", () => {
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
      )
      say(socket)
    })
  })
  more.push(() => server.close())
  server.listen(0, "127.0.0.1")
  await new Promise((resolve) => server.once("listening", resolve))
  return portOf(server)
}

/** Opens a WebSocket without a library, to read every byte after the head. */
const listenRaw = async (port: number, pauseAfter = Number.POSITIVE_INFINITY) => {
  let all = Buffer.alloc(0)
  const ended = Promise.withResolvers<void>()
  await api(gateway, "POST", "/tunnels", { name: "raw", port })
  const client = await Bun.connect({
    hostname: "127.0.0.1",
    port: gateway.port,
    socket: {
      data: (socket, bytes) => {
        all = Buffer.concat([all, bytes])
        if (all.length > pauseAfter) socket.pause()
      },
      close: () => ended.resolve(),
      error: () => ended.resolve(),
    },
  })
  client.write(
    `GET /t/raw/ws HTTP/1.1\r\nHost: s\r\nCookie: ${cookie}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n`,
  )
  const said = () => all.subarray(all.indexOf("\r\n\r\n") + 4)
  await untilTrue(() => all.includes("\r\n\r\n"), "head")
  return { client, said, ended: ended.promise }
}

test("in the middle of a frame no close frame is inserted and the connection is reset", async () => {
  const half = Buffer.from([0x82, 100, 1, 2, 3])
  const { said, ended } = await listenRaw(await rawBackend((socket) => void socket.write(half)))
  await untilTrue(() => said().length === half.length, "half a frame")
  gateway.afterRestore(FRESH)
  await ended
  expect(said().equals(half)).toBe(true)
})

test("after the backend's own close frame no second one is sent", async () => {
  const close = Buffer.from([0x88, 0x02, 0x03, 0xe8])
  const { said, ended } = await listenRaw(await rawBackend((socket) => void socket.write(close)))
  await untilTrue(() => said().length === close.length, "close frame")
  gateway.afterRestore(FRESH)
  await ended
  expect(said().equals(close)).toBe(true)
})

test("a client that does not read is dropped without waiting", async () => {
  const backendEnded = Promise.withResolvers<void>()
  const block = Buffer.alloc(64 * 1024, 0)
  let backend: Socket | undefined
  const port = await rawBackend((socket) => {
    backend = socket
    socket.once("close", () => backendEnded.resolve())
    const pour = () => {
      while (socket.write(block));
      socket.once("drain", pour)
    }
    pour()
  })
  await listenRaw(port, 1000)
  const token = { headers: { authorization: `Bearer ${makeToken()}` } }
  const metrics = async () => (await fetch(`${gateway.url}/metrics`, token)).text()
  expect(await metrics()).toContain("sandpiper_gateway_websockets 1\n")
  await untilStill(() => backend?.bytesWritten, "full buffers between the backend and the client")
  gateway.afterRestore(SECRET)
  await backendEnded.promise
  expect(await metrics()).toContain("sandpiper_gateway_websockets 0\n")
})
