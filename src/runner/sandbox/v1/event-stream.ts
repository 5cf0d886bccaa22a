/** A response of server-sent events. A comment every 15 seconds keeps proxies from closing a silent stream. */
import type { Clock } from "../../../lib/clock.ts"
import type { Client } from "./client.ts"

export interface EventStream {
  readonly send: (event: string, data: unknown, id?: number) => Promise<void>
  readonly end: () => void
}

const HEARTBEAT_MS = 15_000

export const beginEvents = (client: Client, clock: Clock): EventStream => {
  client.begin(200, { "content-type": "text/event-stream", "transfer-encoding": "chunked" })
  let isOpen = true
  let cancel = () => {}
  const sendText = (text: string): Promise<void> => {
    const bytes = Buffer.from(text)
    const chunk = [Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]
    return isOpen ? client.write(Buffer.concat(chunk)) : Promise.resolve()
  }
  const beat = () => {
    cancel = clock.after(HEARTBEAT_MS, () => {
      void sendText(": still here\n\n")
      beat()
    })
  }
  beat()
  const close = () => {
    isOpen = false
    cancel()
  }
  client.gone.addEventListener("abort", close)
  return {
    send: (event, data, id) =>
      sendText(
        `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`,
      ),
    end: () => {
      if (!isOpen) return
      close()
      void client.write(Buffer.from("0\r\n\r\n"))
      client.finish()
    },
  }
}
