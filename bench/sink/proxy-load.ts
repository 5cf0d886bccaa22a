/** The client of bench/proxy.ts in a separate process: one kind of load against one port, result as JSON. */
import type { Socket } from "bun"
import { WebSocket } from "ws"
import { percentile } from "../measure.ts"

const [kind = "", port = "", cookie = ""] = process.argv.slice(2)
const CONNECTIONS = 32
const SECONDS = 2

const print = (result: unknown) => process.stdout.write(`${JSON.stringify(result)}\n`)

/** Each connection sends the next request as soon as it has the response. */
const requests = async () => {
  const request = Buffer.from(
    `GET /vscode/x HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: ${cookie}\r\nAccept: */*\r\n\r\n`,
  )
  const latencies: number[] = []
  const until = performance.now() + SECONDS * 1000
  const one = () =>
    new Promise<void>((resolve, reject) => {
      let sentAt = 0
      let missing = -1
      const ask = (socket: Socket) => {
        sentAt = performance.now()
        missing = -1
        socket.write(request)
      }
      void Bun.connect({
        hostname: "127.0.0.1",
        port: Number(port),
        socket: {
          open: ask,
          data: (socket, bytes) => {
            if (missing === -1) {
              const head = bytes.toString("latin1", 0, 1024)
              const end = head.indexOf("\r\n\r\n")
              if (!head.startsWith("HTTP/1.1 200") || end === -1) return reject(new Error(head))
              missing = end + 4 + 256
            }
            missing -= bytes.length
            if (missing > 0) return
            const now = performance.now()
            latencies.push(now - sentAt)
            if (now < until) ask(socket)
            else socket.end()
          },
          close: () => {
            if (performance.now() < until) reject(new Error("the proxy closed a connection"))
            else resolve()
          },
        },
      })
    })
  await Promise.all(Array.from({ length: CONNECTIONS }, one))
  print({
    perSecond: latencies.length / SECONDS,
    requests: latencies.length,
    p99: percentile(latencies, 0.99),
  })
}

const stream = async () => {
  const began = performance.now()
  let bytes = 0
  for (let time = 0; time < 4; time += 1) {
    const response = await fetch(`http://127.0.0.1:${port}/vscode/large`, { headers: { cookie } })
    if (response.body) for await (const part of response.body) bytes += part.length
  }
  print({ mbPerSecond: bytes / 1e6 / ((performance.now() - began) / 1000) })
}

const sockets = async () => {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/vscode/ws`, {
    headers: { cookie },
    perMessageDeflate: false,
  })
  await new Promise((resolve, reject) => {
    socket.once("open", resolve)
    socket.once("error", reject)
  })
  const trip = (data: Buffer) =>
    new Promise<number>((resolve) => {
      const began = performance.now()
      socket.once("message", () => resolve(performance.now() - began))
      socket.send(data)
    })
  const small = Buffer.alloc(64, 1)
  const large = Buffer.alloc(1024 * 1024, 1)
  for (let warm = 0; warm < 200; warm += 1) await trip(small)
  const trips: number[] = []
  for (let time = 0; time < 3000; time += 1) trips.push(await trip(small))
  let took = 0
  for (let time = 0; time < 200; time += 1) took += await trip(large)
  socket.terminate()
  print({
    p50: percentile(trips, 0.5) * 1000,
    p99: percentile(trips, 0.99) * 1000,
    mbPerSecond: (200 * 2 * large.length) / 1e6 / (took / 1000),
  })
}

await ({ requests, stream, sockets }[kind] ?? requests)()
