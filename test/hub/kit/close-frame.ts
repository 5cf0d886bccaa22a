/**
 * The close frame of a WebSocket, read from the bytes: workerd closes the TCP connection only when the object goes to
 * sleep, and WebSocket clients report a close no earlier than that.
 */
import { connect } from "node:net"

const CLOSE = 0x88

export interface ClosingSocket {
  /** The code and the reason of the close frame. */
  readonly closed: Promise<string>
  readonly end: () => void
}

/** Resolves when the WebSocket is open. */
export const openUntilClosed = (address: string): Promise<ClosingSocket> => {
  const { hostname, port, host, pathname, search } = new URL(address)
  const socket = connect(Number(port), hostname)
  const closed = Promise.withResolvers<string>()
  const opened = Promise.withResolvers<ClosingSocket>()
  let bytes = Buffer.alloc(0)
  let isOpen = false
  const read = () => {
    if (!isOpen) {
      const head = bytes.indexOf("\r\n\r\n")
      if (head < 0) return
      isOpen = true
      bytes = bytes.subarray(head + 4)
      opened.resolve({ closed: closed.promise, end: () => socket.destroy() })
    }
    // A silent client gets only frames shorter than 64 KiB.
    for (;;) {
      const short = (bytes[1] ?? 0) & 0x7f
      const head = short === 126 ? 4 : 2
      if (bytes.length < head) return
      const length = short === 126 ? bytes.readUInt16BE(2) : short
      if (bytes.length < head + length) return
      const payload = bytes.subarray(head, head + length)
      if (bytes[0] === CLOSE) {
        closed.resolve(`${payload.readUInt16BE(0)} ${payload.toString("utf8", 2)}`)
      }
      bytes = bytes.subarray(head + length)
    }
  }
  socket.on("data", (more: Buffer) => {
    bytes = Buffer.concat([bytes, more])
    read()
  })
  socket.on("error", (error) => {
    opened.reject(error)
    closed.reject(error)
  })
  socket.write(
    [
      `GET ${pathname}${search} HTTP/1.1`,
      `Host: ${host}`,
      "Upgrade: websocket",
      "Connection: Upgrade",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      "Sec-WebSocket-Version: 13",
      "\r\n",
    ].join("\r\n"),
  )
  return opened.promise
}
