/** A runner's WebSocket without the runner's care: it sends what the test says at once, whatever the hub answers. */
import { untilTrue } from "../../kit/until-true.ts"

type Frame = Readonly<Record<string, unknown>>

export interface RawRunner {
  /** Frames of the hub, in their order. */
  readonly received: readonly Frame[]
  readonly of: (type: string) => readonly Frame[]
  /** Sends frames with their numbers. */
  readonly send: (...frames: readonly object[]) => void
  readonly sendText: (text: string) => void
  /** The code and the reason with which the connection was closed. */
  readonly closed: () => string | undefined
  readonly close: () => void
}

/** `hub` is the address of its HTTP API. Resolves when the connection is open and the greeting is sent. */
export const connectRawRunner = async (
  hub: string,
  session: string,
  token: string,
  epoch = "raw",
): Promise<RawRunner> => {
  const socket = new WebSocket(
    `${hub.replace(/^http/, "ws")}/sessions/${session}/ws?role=runner&token=${token}`,
  )
  const received: Frame[] = []
  let seq = 0
  let closed: string | undefined
  socket.addEventListener("message", ({ data }) => {
    received.push(JSON.parse(String(data)) as Frame)
  })
  socket.addEventListener("close", ({ code, reason }) => {
    closed = `${code} ${reason}`
  })
  await untilTrue(() => socket.readyState === WebSocket.OPEN, "connection of the runner")
  const hello = { type: "hello", protocol: 2, runner: { name: "raw", version: "0" } }
  const rest = { sessionId: session, epoch, nextSeq: 1, active: [] }
  socket.send(JSON.stringify({ ...hello, ...rest }))
  return {
    received,
    of: (type) => received.filter((frame) => frame["type"] === type),
    send: (...frames) => {
      for (const frame of frames) {
        seq += 1
        socket.send(JSON.stringify({ ...frame, seq }))
      }
    },
    sendText: (text) => socket.send(text),
    closed: () => closed,
    close: () => socket.close(),
  }
}
