/** A fake session agent in a separate process that counts deltas: prints its port, then one line of JSON per turn. */

let text: string[] = []
let ages: number[] = []
let frames = 0
let first = 0

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request, self) =>
    self.upgrade(request, { data: undefined }) ? undefined : new Response("", { status: 426 }),
  websocket: {
    maxPayloadLength: 64 * 1024 * 1024,
    message: (socket, data) => {
      const now = performance.timeOrigin + performance.now()
      const frame = JSON.parse(String(data)) as Record<string, unknown>
      if (frame["type"] === "hello") {
        socket.send('{"type":"welcome","protocol":2,"lastSeq":0}')
        return
      }
      const seq = Number(frame["seq"])
      if (seq % 64 === 0 || frame["type"] === "complete") socket.send(`{"type":"ack","seq":${seq}}`)
      if (frame["type"] === "message.part.text-delta") {
        const delta = String(frame["delta"])
        text.push(delta)
        frames += 1
        if (first === 0) first = now
        for (const made of delta.trim().split(" ")) ages.push(now - Number(made))
      }
      if (frame["type"] === "message.finalize") {
        const exact = text.join("") === frame["finalText"]
        const printed = ages.length > 10_000 ? [] : ages
        process.stdout.write(
          `${JSON.stringify({ deltas: ages.length, exact, ms: now - first, ages: printed, frames })}\n`,
        )
        text = []
        ages = []
        frames = 0
        first = 0
      }
    },
  },
})

process.stdout.write(`${server.port}\n`)

export const port = server.port
