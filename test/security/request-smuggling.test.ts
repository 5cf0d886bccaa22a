/** One request of a client is one request of the backend: nothing hides a second one in headers or trailers. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import {
  logIn,
  speak,
  startTestGateway,
  statusOf,
  type TestGateway,
} from "../runner/gateway/kit.ts"

let gateway: TestGateway
let node: Server
let bun: ReturnType<typeof Bun.serve>
let cookie: string
const seen: string[] = []

beforeAll(async () => {
  node = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    request.resume().on("end", () => response.end("ok"))
  })
  node.listen(0, "127.0.0.1")
  await new Promise((resolve) => node.once("listening", resolve))
  bun = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      seen.push(`${request.method} ${new URL(request.url).pathname}`)
      await request.text()
      return new Response("ok")
    },
  })
  const { port } = node.address() as AddressInfo
  gateway = startTestGateway({ backends: { vscode: port, vnc: bun.port ?? 0, ttyd: 3 } })
  cookie = await logIn(gateway)
})

afterAll(async () => {
  await gateway.stop()
  node.close()
  await bun.stop(true)
})

const send = (path: string, headers: string, body: string) =>
  speak(
    gateway.port,
    `POST ${path} HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nCookie: ${cookie}\r\n${headers}\r\n${body}`,
  )

const HIDDEN = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`

test.each(["/vscode/", "/vnc/"])(
  "a Connection header that names Transfer-Encoding does not show %s a second request",
  async (path) => {
    for (const option of ["transfer-encoding", "close, Transfer-Encoding", "TRANSFER-ENCODING"]) {
      seen.length = 0
      const headers = `Transfer-Encoding: chunked\r\nConnection: ${option}\r\n`
      const answer = await send(path, headers, chunk(HIDDEN))
      expect(statusOf(answer)).toBe(400)
      expect(seen).toEqual([])
    }
  },
)

test.each([
  ["without a colon", "no colon here"],
  ["with a bare line feed", "A: b\nGET /hidden HTTP/1.1"],
  ["with a control character", "A: \u0000"],
  ["that is folded", "A: b\r\n c"],
  ["that sets the length", "Content-Length: 5"],
  ["that sets the framing", "transfer-encoding: chunked"],
  ["that sets the host", "Host: elsewhere"],
  ["that sets a cookie", "Cookie: gateway_session=x"],
])("a chunked body with a trailer %s is refused", async (_what, trailer) => {
  const answer = await send("/vscode/", "Transfer-Encoding: chunked\r\n", `0\r\n${trailer}\r\n\r\n`)
  expect(answer).toContain("HTTP/1.1 400")
})

test("a chunked body with a harmless trailer is accepted, and the trailer is dropped", async () => {
  const body = `2\r\nhi\r\n0\r\nX-Checksum: 1\r\n\r\n`
  const headers = "Transfer-Encoding: chunked\r\nConnection: close\r\n"
  expect(await send("/vscode/", headers, body)).toContain("HTTP/1.1 200")
})
