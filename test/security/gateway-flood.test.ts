/** A flood of half-open connections: the gateway stays reachable for its health check and for people. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import type { Socket, TCPSocketListener } from "bun"
import { WebSocket } from "ws"
import { type Apart, startApart } from "../runner/gateway/separate-process.ts"

const SOCKETS = 4200
const DRIBBLE_MS = 350
/** At most this many attackers come back at a time: the test's own CPU is not what is attacked. */
const RETURNING = 150
const PROBES = 20

let backend: ReturnType<typeof Bun.serve>
let opencode: TCPSocketListener<undefined>
let gateway: Apart
const attackers = new Set<Socket>()
let dribble: Timer | undefined

beforeAll(async () => {
  backend = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, server) =>
      server.upgrade(request, { data: undefined }) ? undefined : new Response("inside"),
    websocket: { message: (socket, text) => void socket.send(text) },
  })
  // Like most servers, it waits for the whole body before it responds.
  opencode = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } })
  gateway = await startApart(backend.port ?? 0, opencode.port)
})

afterEach(() => {
  clearInterval(dribble)
  for (const socket of attackers) socket.terminate()
})

afterAll(async () => {
  await gateway?.stop()
  await backend?.stop(true)
  opencode?.stop(true)
})

/** What the attackers send first. */
const ENDLESS = "HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
const floods = [
  {
    what: "were refused and send a byte every 0.35 s",
    sent: ["X\r\n\r\n", "GET /health HTTP/1.1\r\nHost: x\r\nA: ", `POST /vscode/ ${ENDLESS}`],
  },
  {
    what: "have no password and send a byte of an endless body for OpenCode every 0.35 s",
    sent: [
      `POST /opencode/x ${ENDLESS}`,
      `POST /opencode/x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ${btoa("opencode:guess")}\r\nContent-Length: 1000000\r\n\r\n`,
    ],
  },
] as const

const attack = (sent: readonly string[], index: number): Promise<unknown> =>
  Bun.connect({
    hostname: "127.0.0.1",
    port: gateway.port,
    // The attackers never close their side.
    allowHalfOpen: true,
    socket: {
      open: (socket) => {
        attackers.add(socket)
        socket.write(sent[index % sent.length] ?? "")
      },
      data: () => {},
      end: () => {},
      close: (socket) => void attackers.delete(socket),
      error: (socket) => void attackers.delete(socket),
    },
  }).catch(() => {})

const isHealthy = async (): Promise<boolean> => {
  const response = await fetch(`${gateway.url}/health`, {
    headers: { connection: "close" },
    signal: AbortSignal.timeout(5000),
  }).catch(() => undefined)
  return response?.status === 200
}

const flood = async ({ sent }: (typeof floods)[number]) => {
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/vscode/ws`, {
    headers: { cookie: gateway.cookie },
  })
  await new Promise((resolve, reject) => {
    socket.once("open", resolve)
    socket.once("error", reject)
  })
  const echo = (text: string) =>
    new Promise<string>((resolve, reject) => {
      socket.removeAllListeners()
      socket.once("message", (data: Buffer) => resolve(data.toString()))
      socket.once("close", () => reject(new Error("the person's WebSocket was closed")))
      socket.send(text)
    })

  for (let index = 0; index < SOCKETS; index += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, offset) => attack(sent, index + offset)))
  }
  dribble = setInterval(() => {
    for (const attacker of attackers) attacker.write("x")
    // The attackers come back when they are thrown out.
    const missing = Math.min(RETURNING, SOCKETS - attackers.size)
    for (let index = 0; index < missing; index += 1) void attack(sent, index)
  }, DRIBBLE_MS)

  const failed: string[] = []
  let mostAttackers = 0
  for (let probe = 0; probe < PROBES; probe += 1) {
    mostAttackers = Math.max(mostAttackers, attackers.size)
    if (!(await isHealthy())) failed.push(`/health in probe ${probe}`)
    const page = await fetch(`${gateway.url}/vscode/`, {
      headers: { cookie: gateway.cookie },
      signal: AbortSignal.timeout(5000),
    }).catch(() => undefined)
    if ((await page?.text()) !== "inside") failed.push(`the person's page in probe ${probe}`)
    if ((await echo(`${probe}`)) !== `${probe}`) failed.push(`the WebSocket in probe ${probe}`)
    // Sleep: the probes are spread over the flood.
    await Bun.sleep(100)
  }
  socket.removeAllListeners()
  socket.close()
  expect(failed).toEqual([])
  expect(mostAttackers).toBeGreaterThan(3000)
}

test.each(floods)(
  "4,200 sockets that $what leave /health at 200 in every probe and a person's session working",
  (row) => flood(row),
  120_000,
)
