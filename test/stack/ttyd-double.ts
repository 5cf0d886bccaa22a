/**
 * A fake ttyd with its protocol and its quirks: without the subprotocol `tty` the socket opens and sends nothing, a wrong
 * path drops the connection, and when the shell exits the connection ends without a close frame. Debian bookworm has no
 * package of ttyd.
 */
import { createHash } from "node:crypto"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { WebSocketServer, type WebSocket } from "ws"

const page = `<!doctype html><title>terminal</title><pre id="out"></pre><script>
  const socket = new WebSocket(new URL("ws", location.href.replace(/^http/, "ws")), ["tty"])
  socket.binaryType = "arraybuffer"
  const encoder = new TextEncoder(), decoder = new TextDecoder()
  window.type = (text) => socket.send(encoder.encode("0" + text))
  window.resize = (columns, rows) => socket.send(encoder.encode("1" + JSON.stringify({ columns, rows })))
  socket.onopen = () => socket.send(encoder.encode(JSON.stringify({ AuthToken: "", columns: 80, rows: 24 })))
  socket.onmessage = ({ data }) => {
    const bytes = new Uint8Array(data), text = decoder.decode(bytes.subarray(1))
    if (bytes[0] === 48) document.getElementById("out").textContent += text
    if (bytes[0] === 49) document.title = text
  }
  socket.onclose = ({ code }) => { document.body.dataset.closed = code }
</script>`

export interface TtydDouble {
  readonly port: number
  readonly stop: () => Promise<void>
}

export const startTtydDouble = async (command: readonly string[]): Promise<TtydDouble> => {
  const sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: (offered) => (offered.has("tty") ? "tty" : false),
  })
  const server: Server = createServer((request, response) => {
    if (request.url === "/token") return response.end('{"token": ""}')
    if (request.url !== "/") return response.writeHead(404).end()
    response.setHeader("content-type", "text/html")
    response.setHeader("etag", createHash("sha1").update(page).digest("hex"))
    response.end(page)
  })
  server.on("upgrade", (request, socket, head) => {
    if (request.url !== "/ws") return socket.destroy()
    sockets.handleUpgrade(request, socket, head, (client) => {
      // Without a close frame, and after all that was written: `end` drops what the WebSocket has not yet sent.
      // Sleep: the WebSocket has no event for an empty buffer.
      const hangUp = () => void (client.bufferedAmount > 0 ? setTimeout(hangUp, 5) : socket.end())
      if (client.protocol === "tty") serve(client, command, hangUp)
    })
  })
  server.listen(0, "127.0.0.1")
  await new Promise((resolve) => server.once("listening", resolve))
  return {
    port: (server.address() as AddressInfo).port,
    stop: async () => {
      for (const client of sockets.clients) client.terminate()
      server.close()
    },
  }
}

interface Size {
  readonly columns: number
  readonly rows: number
}

/** The first message starts the program; in later messages the first byte is the message type. */
const serve = (client: WebSocket, command: readonly string[], hangUp: () => void) => {
  let child: Bun.Subprocess | undefined
  const send = (kind: string, data: string | Uint8Array) =>
    client.send(Buffer.concat([Buffer.from(kind), Buffer.from(data)]))
  const begin = ({ columns, rows }: Size) => {
    child = Bun.spawn([...command], {
      env: { ...process.env, TERM: "xterm-256color", PS1: "$ " },
      // The end of the terminal's output, not of the program: output of a program that has ended may still be unread.
      terminal: { cols: columns, rows, data: (_terminal, data) => send("0", data), exit: hangUp },
    })
    send("1", `${command[0]} (sandbox)`)
    send("2", "{}")
  }
  client.on("message", (message: Buffer) => {
    const kind = message.toString("latin1", 0, 1)
    if (kind === "{") return begin(JSON.parse(message.toString()) as Size)
    if (kind === "0") return child?.terminal?.write(message.subarray(1))
    if (kind === "1") {
      const { columns, rows } = JSON.parse(message.toString("utf8", 1)) as Size
      child?.terminal?.resize(columns, rows)
    }
  })
  client.on("close", () => child?.kill())
}
