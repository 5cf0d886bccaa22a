/** Backends as simple as Python's http.server: one does not read bodies, one serves a single connection at a time. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type AddressInfo, createServer, type Server, type Socket } from "node:net"
import { logIn, startTestGateway, type TestGateway } from "../kit.ts"
import { untilTrue } from "../../../kit/until-true.ts"

const HEAD_END = "\r\n\r\n"
const cleanups: (() => unknown)[] = []
/** Connections of the second backend that wait until the one before them ends. */
const waiting: Socket[] = []
let gateway: TestGateway
let cookie: string
/** Answers the request to `/held` of the second backend. */
let answerHeld: (() => void) | undefined

const respond = (socket: Socket, text: string) =>
  void socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`)

/** Answers each head, and takes what follows it for the next head. */
const serveHeads = (socket: Socket, answer: (line: string) => void) => {
  let held = ""
  socket.on("error", () => {})
  socket.on("data", (bytes: Buffer) => {
    held += bytes.toString("latin1")
    for (let end = held.indexOf(HEAD_END); end !== -1; end = held.indexOf(HEAD_END)) {
      answer(held.slice(0, held.indexOf("\r\n")))
      held = held.slice(end + HEAD_END.length)
    }
  })
}

const listen = async (onSocket: (socket: Socket) => void): Promise<number> => {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    onSocket(socket)
  }).listen(0, "127.0.0.1")
  await new Promise((resolve) => server.once("listening", resolve))
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

beforeAll(async () => {
  const bodiless = await listen((socket) => serveHeads(socket, (line) => respond(socket, line)))
  let served: Socket | undefined
  const serveNext = () => {
    served = waiting.shift()
    const socket = served
    if (!socket) return
    socket.once("close", serveNext)
    serveHeads(socket, (line) => {
      if (!line.includes("/held")) return respond(socket, line)
      answerHeld = () => respond(socket, line)
    })
    socket.resume()
  }
  const single = await listen((socket) => {
    socket.pause()
    waiting.push(socket)
    if (!served) serveNext()
  })
  gateway = startTestGateway({ backends: { vscode: bodiless, vnc: single, ttyd: 9 } })
  cookie = await logIn(gateway)
})
afterAll(async () => {
  await gateway.stop()
  for (const clean of cleanups) clean()
})

const send = async (path: string, init: RequestInit = {}) => {
  const response = await fetch(`${gateway.url}${path}`, { ...init, headers: { cookie } })
  return response.text()
}

test("a body that the backend does not read never becomes a part of the next request", async () => {
  const stream = () =>
    new ReadableStream({
      start: (controller) => {
        controller.enqueue(new TextEncoder().encode("in chunks"))
        controller.close()
      },
    })
  for (const body of ["hello", `GET /hidden HTTP/1.1${HEAD_END}`, stream()]) {
    await send("/vscode/posted", { method: "POST", body })
    expect(await send("/vscode/next")).toBe("GET /next HTTP/1.1")
  }
})

test("a POST to a backend that serves one connection at a time is answered after a GET that kept its connection", async () => {
  for (const method of ["GET", "POST", "GET", "POST"])
    expect(await send("/vnc/one", { method })).toBe(`${method} /one HTTP/1.1`)
})

test("requests at the same time to a backend that serves one connection at a time are all answered", async () => {
  const held = send("/vnc/held")
  await untilTrue(() => answerHeld !== undefined, "the held request")
  const others = ["/a", "/b"].map((path) => send(`/vnc${path}`))
  await untilTrue(() => waiting.length === 2, "the other connections")
  answerHeld?.()
  expect(await held).toBe("GET /held HTTP/1.1")
  expect(await Promise.all(others)).toEqual(["GET /a HTTP/1.1", "GET /b HTTP/1.1"])
})
