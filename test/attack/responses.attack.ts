/** Mutated HTTP responses of a hostile backend, read through the gateway. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { createRandom, mutate, seedOf } from "./kit/mutate.ts"
import { inParallel, sendRaw } from "./kit/raw-client.ts"
import { MAX_STALL_MS, stallDuring, startTarget, type Target } from "./kit/target.ts"

const COUNT = Number(process.env["ATTACK_COUNT"] ?? 100_000)
const seed = seedOf(process.env["ATTACK_SEED"])

const dictionary = [
  "\r\n",
  "\n",
  "\r\n\r\n",
  "\0",
  ":",
  "Content-Length: 0\r\n",
  "Content-Length: 3\r\n",
  "Content-Length: 9999999999999\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Connection: close\r\n",
  "Set-Cookie: gateway_session=evil; Path=/\r\n",
  "Location: http://evil.example/\r\n",
  "HTTP/1.1 100 Continue\r\n\r\n",
  "HTTP/1.1 101 Switching Protocols\r\n\r\n",
  "HTTP/1.1 304 Not Modified\r\n\r\n",
  "HTTP/1.1 999 x\r\n\r\n",
  "0\r\n\r\n",
  "fffffffff\r\n",
  "y".repeat(40_000),
]

const samples = [
  "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
  "HTTP/1.0 200 OK\r\n\r\nhello until the end",
  "HTTP/1.1 204 No Content\r\n\r\n",
  "HTTP/1.1 302 Found\r\nLocation: /vscode/x\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x02hi",
]

/** Begins anew with every attack. */
let random = createRandom(seed)
const backend = Bun.listen({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    data: (socket) => {
      socket.write(Buffer.from(mutate(random, random.pick(samples), dictionary), "latin1"))
      if (random.below(3) === 0) socket.end()
    },
  },
})

let target: Target<{ readonly port: number; readonly cookie: string }>
beforeAll(async () => {
  target = await startTarget("gateway.ts", String(backend.port))
})
afterAll(async () => {
  await target.stop()
  backend.stop(true)
})

test(`${COUNT} hostile responses neither stop, stall nor fill the gateway, and none sets its cookie (ATTACK_SEED=${seed})`, async () => {
  const { port, cookie } = target.facts
  const before = await target.health()
  const stolen: string[] = []
  const stall = await stallDuring(target, () => {
    random = createRandom(seed)
    return inParallel(COUNT, 128, async (index) => {
      const upgrade =
        index % 5 === 0
          ? "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
          : ""
      const request = `GET /vscode/ HTTP/1.1\r\nHost: sandbox.example\r\nCookie: ${cookie}\r\n${upgrade}\r\n`
      const { received } = await sendRaw(port, request, 15)
      const [head = ""] = received.split("\r\n\r\n")
      if (/^set-cookie:\s*gateway_session=evil/im.test(head)) stolen.push(received)
    })
  })
  const after = await target.health()
  expect(stolen).toEqual([])
  expect(target.isAlive()).toBe(true)
  expect(stall).toBeLessThan(MAX_STALL_MS)
  expect(after.rssMb).toBeLessThan(before.rssMb + 200)
  expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200)
}, 600_000)
