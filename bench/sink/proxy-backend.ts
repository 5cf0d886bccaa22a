/** The backend of bench/proxy.ts: small responses, a response of 64 MiB, and a WebSocket echo. */
const small = "x".repeat(256)
const block = Buffer.alloc(1024 * 1024, 97)

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request, self) => {
    const { pathname } = new URL(request.url)
    if (pathname.endsWith("/ws"))
      return self.upgrade(request) ? undefined : new Response("", { status: 426 })
    if (!pathname.endsWith("/large")) return new Response(small)
    let blocks = 64
    return new Response(
      new ReadableStream({
        pull: (controller) => {
          blocks -= 1
          if (blocks < 0) controller.close()
          else controller.enqueue(block)
        },
      }),
    )
  },
  websocket: {
    maxPayloadLength: 16 * 1024 * 1024,
    message: (socket, data) => void socket.send(data),
  },
})
process.stdout.write(`${server.port}\n`)
