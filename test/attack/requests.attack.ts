/** Mutated HTTP requests against the gateway, with a backend that records every request it gets. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { createRandom, mutate, seedOf } from "./kit/mutate.ts"
import { inParallel, sendRaw } from "./kit/raw-client.ts"
import { MAX_STALL_MS, stallDuring, startTarget, type Target } from "./kit/target.ts"

const COUNT = Number(process.env["ATTACK_COUNT"] ?? 100_000)
const seed = seedOf(process.env["ATTACK_SEED"])

/** Every request that the backend accepts must be one that the gateway forwarded: it carries the gateway's header. */
let smuggled = 0
/** The path of requests that only show that earlier ones were read. */
const LATER = "/vscode/later"
let forwarded = 0
const backend = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) => {
    forwarded += 1
    const { pathname } = new URL(request.url)
    if (pathname.includes("smuggled")) smuggled += 1
    if (pathname === LATER) forwarded -= 1
    return new Response("ok")
  },
})

let target: Target<{ readonly port: number; readonly cookie: string }>
beforeAll(async () => {
  target = await startTarget("gateway.ts", String(backend.port))
})
afterAll(async () => {
  await target.stop()
  await backend.stop(true)
})

const dictionary = [
  "\r\n",
  "\n",
  "\r",
  "\r\n\r\n",
  " ",
  "\t",
  "\0",
  ":",
  ";",
  ",",
  "Content-Length: 0\r\n",
  "Content-Length: 5\r\n",
  "Content-Length: -1\r\n",
  "Content-Length: 99999999999999999999\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding: identity\r\n",
  "Transfer-Encoding : chunked\r\n",
  "Connection: transfer-encoding\r\n",
  "Connection: close\r\n",
  "Upgrade: websocket\r\n",
  "Expect: 100-continue\r\n",
  "Host: evil.example\r\n",
  "0\r\n\r\n",
  "5\r\nhello\r\n",
  "ffffffffffffffff\r\n",
  "GET /vscode/smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
  "HTTP/1.0",
  "HTTP/2",
  "..",
  "%2e%2e",
  "%00",
  "//",
  "\\",
  "\u00ff",
  "x".repeat(40_000),
]

const samples = (cookie: string): readonly string[] => [
  `GET /health HTTP/1.1\r\nHost: sandbox.example\r\n\r\n`,
  `GET /vscode/a?b=c HTTP/1.1\r\nHost: sandbox.example\r\nCookie: ${cookie}\r\nAccept: */*\r\n\r\n`,
  `POST /vscode/p HTTP/1.1\r\nHost: sandbox.example\r\nCookie: ${cookie}\r\nContent-Length: 5\r\n\r\nhello`,
  `POST /vscode/p HTTP/1.1\r\nHost: sandbox.example\r\nCookie: ${cookie}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
  `GET /ttyd/ws HTTP/1.1\r\nHost: sandbox.example\r\nCookie: ${cookie}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  `POST /api/tunnels HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer wrong\r\nContent-Length: 2\r\n\r\n{}`,
]

/**
 * The gateway and the backend read their sockets in order: they have read what was sent before when two later requests are
 * answered, one after the other.
 */
const later = async () => {
  const { port, cookie } = target.facts
  for (let times = 0; times < 2; times += 1) {
    const response = await fetch(`http://127.0.0.1:${port}${LATER}`, {
      headers: { cookie },
      keepalive: false,
    })
    expect(await response.text()).toBe("ok")
  }
}

test(`${COUNT} mutated requests neither stop, stall nor fill the gateway, and none is answered with 500 (ATTACK_SEED=${seed})`, async () => {
  const whole = samples(target.facts.cookie)
  const before = await target.health()
  const broken: string[] = []
  const stall = await stallDuring(target, () => {
    const random = createRandom(seed)
    return inParallel(COUNT, 128, async (index) => {
      const request = mutate(random, random.pick(whole), dictionary)
      // Most connections are cut soon, whether they are answered or not. Some stay until the gateway has read them.
      const { received } = await sendRaw(
        target.facts.port,
        request,
        15,
        index % 8 === 0 ? later : undefined,
      )
      if (received.startsWith("HTTP/1.1 500")) broken.push(request)
    })
  })
  const after = await target.health()
  expect(broken).toEqual([])
  expect(target.isAlive()).toBe(true)
  expect(stall).toBeLessThan(MAX_STALL_MS)
  expect(after.rssMb).toBeLessThan(before.rssMb + 200)
  const health = await fetch(`http://127.0.0.1:${target.facts.port}/health`)
  expect(health.status).toBe(200)
  // The mutations are mild enough that many requests are still good: the attack reaches the proxy.
  expect(forwarded).toBeGreaterThan(COUNT / 100)
}, 600_000)

test("a request hidden in the body of another never reaches the backend", async () => {
  const { port, cookie } = target.facts
  const hidden = "GET /vscode/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
  const head = `POST /vscode/p HTTP/1.1\r\nHost: sandbox.example\r\nCookie: ${cookie}\r\n`
  const framings = [
    `Content-Length: ${hidden.length}\r\nTransfer-Encoding: chunked\r\n`,
    `Transfer-Encoding: chunked\r\nContent-Length: ${hidden.length}\r\n`,
    `Content-Length: ${hidden.length}\r\nContent-Length: 0\r\n`,
    `Content-Length: 0, ${hidden.length}\r\n`,
    `Transfer-Encoding: chunked\r\nConnection: transfer-encoding\r\n`,
    `Content-Length: ${hidden.length}\r\nConnection: content-length\r\n`,
    `Transfer-Encoding: xchunked\r\n`,
    `Transfer-Encoding: chunked, identity\r\n`,
    `Transfer-Encoding:\tchunked\r\nTransfer-Encoding: identity\r\n`,
    `Content-Length: +${hidden.length}\r\n`,
    `Content-Length : ${hidden.length}\r\n`,
    ` Content-Length: ${hidden.length}\r\n`,
  ]
  smuggled = 0
  for (const framing of framings) {
    await sendRaw(port, `${head}${framing}\r\n0\r\n\r\n${hidden}`, 50, later)
    await sendRaw(port, `${head}${framing}\r\n${hidden}`, 50, later)
  }
  // The hidden request is without a cookie: even as a request of its own it is not let through.
  expect(smuggled).toBe(0)
})
