/**
 * A view of one terminal over a WebSocket, with ttyd's messages. It connects again after a cut; the server then sends a
 * reset and the kept output. It asks for a pause while the screen has more to draw than it can.
 */

export interface WireOptions {
  readonly id: string
  /** Draws bytes and calls back when they are drawn. */
  readonly draw: (bytes: Uint8Array, drawn: () => void) => void
  readonly size: () => { readonly columns: number; readonly rows: number }
  readonly onTitle: (title: string) => void
  /** The connection is open, is being made again, or the shell has ended. */
  readonly onState: (state: "open" | "waiting" | "ended") => void
}

export interface Wire {
  readonly input: (bytes: Uint8Array) => void
  readonly resize: () => void
  readonly close: () => void
}

const PAUSE_BYTES = 1024 * 1024
const RESUME_BYTES = 256 * 1024
const FIRST_RETRY_MS = 250
const MOST_RETRY_MS = 5000
const ENDED = 1000
const OUTPUT = 48
const TITLE = 49

export const connectTerminal = (options: WireOptions): Wire => {
  const encoder = new TextEncoder()
  const decoder = new TextDecoder()
  let socket: WebSocket | undefined
  let isClosed = false
  let retry: ReturnType<typeof setTimeout> | undefined
  let retryMs = FIRST_RETRY_MS
  let undrawn = 0
  let isPaused = false

  const send = (bytes: Uint8Array): void => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(Uint8Array.from(bytes))
  }
  const sendText = (text: string) => send(encoder.encode(text))
  const sendSize = () => sendText(`1${JSON.stringify(options.size())}`)

  const draw = (bytes: Uint8Array): void => {
    undrawn += bytes.length
    if (!isPaused && undrawn > PAUSE_BYTES) {
      isPaused = true
      sendText("2")
    }
    options.draw(bytes, () => {
      undrawn -= bytes.length
      if (!isPaused || undrawn > RESUME_BYTES) return
      isPaused = false
      sendText("3")
    })
  }

  const connect = () => {
    const address = new URL(`ws?id=${encodeURIComponent(options.id)}`, location.href)
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:"
    const opened = new WebSocket(address, ["tty"])
    opened.binaryType = "arraybuffer"
    socket = opened
    opened.addEventListener("open", () => {
      retryMs = FIRST_RETRY_MS
      isPaused = false
      options.onState("open")
      sendSize()
    })
    opened.addEventListener("message", ({ data }: MessageEvent<ArrayBuffer>) => {
      const bytes = new Uint8Array(data)
      if (bytes[0] === OUTPUT) draw(bytes.subarray(1))
      if (bytes[0] === TITLE) options.onTitle(decoder.decode(bytes.subarray(1)))
    })
    opened.addEventListener("close", ({ code }) => {
      if (isClosed || socket !== opened) return
      if (code === ENDED) return options.onState("ended")
      options.onState("waiting")
      retry = setTimeout(connect, retryMs)
      retryMs = Math.min(MOST_RETRY_MS, retryMs * 2)
    })
  }
  connect()

  return {
    input: (bytes) => {
      const message = new Uint8Array(bytes.length + 1)
      message[0] = OUTPUT
      message.set(bytes, 1)
      send(message)
    },
    resize: sendSize,
    close: () => {
      isClosed = true
      clearTimeout(retry)
      socket?.close()
    },
  }
}
