/** A client's connection to a session. Reconnects with its cursor, so that no event is lost or repeated. */
import { WebSocket } from "ws"
import type { Clock } from "../lib/clock.ts"
import { backoffMs } from "../lib/backoff.ts"

export interface HubEvent {
  readonly type: string
  readonly rev?: number
  readonly [field: string]: unknown
}

export interface HubClientOptions {
  /** The hub's HTTP address. */
  readonly url: string
  readonly token: string
  readonly session: string
  readonly clock: Clock
  /** Called for each event; `changes` are split into their single events. */
  readonly onEvent: (event: HubEvent) => void
  /** The hub refused the connection with a status for which a retry is useless. */
  readonly onRefused: (status: number) => void
  /** After this long without a connection, `onGone` is called and retries end. */
  readonly patienceMs: number
  readonly onGone: () => void
}

export interface HubClient {
  /** Sends a request, again after every reconnect, until it has a reply. */
  readonly ask: (message: {
    readonly type: string
    readonly [field: string]: unknown
  }) => Promise<HubEvent>
  readonly close: () => void
}

const RETRY = { min: 100, max: 5000 }

export const connectHub = (options: HubClientOptions): HubClient => {
  const { clock } = options
  const waiting = new Map<
    string,
    { readonly text: string; readonly resolve: (reply: HubEvent) => void }
  >()
  let socket: WebSocket | undefined
  let cursor: number | undefined
  let tries = 0
  let unreachableSince: number | undefined
  let closed = false
  let cancelRetry = () => {}

  const handle = (event: HubEvent): void => {
    if (event.type === "pong") return
    if (event.rev !== undefined) cursor = Math.max(cursor ?? 0, event.rev)
    if (event.type === "reply") {
      const id = String(event["clientRequestId"])
      waiting.get(id)?.resolve(event)
      waiting.delete(id)
      return
    }
    if (event.type !== "changes") return options.onEvent(event)
    for (const change of event["events"] as HubEvent[]) options.onEvent(change)
  }

  const connect = () => {
    const address = `${options.url.replace(/^http/, "ws")}/sessions/${encodeURIComponent(options.session)}/ws?role=client`
    const mine = new WebSocket(address, { headers: { Authorization: `Bearer ${options.token}` } })
    socket = mine
    mine.on("open", () => {
      tries = 0
      unreachableSince = undefined
      mine.send(JSON.stringify({ type: "subscribe", ...(cursor !== undefined && { cursor }) }))
      for (const { text } of waiting.values()) mine.send(text)
    })
    mine.on("message", (data: Buffer) => handle(JSON.parse(data.toString()) as HubEvent))
    mine.on("unexpected-response", (_request, response) => {
      const status = response.statusCode ?? 0
      response.resume()
      mine.terminate()
      if ([401, 403, 404, 410].includes(status)) {
        closed = true
        options.onRefused(status)
      }
      // The hub is there and waits for space on its disk.
      if (status === 507) unreachableSince = clock.now()
    })
    mine.on("error", () => {})
    mine.on("close", () => {
      if (closed || socket !== mine) return
      unreachableSince ??= clock.now()
      if (clock.now() - unreachableSince > options.patienceMs) {
        closed = true
        return options.onGone()
      }
      cancelRetry = clock.after(backoffMs(tries, RETRY, 0.5), connect)
      tries += 1
    })
  }
  connect()

  return {
    ask: (message) =>
      new Promise((resolve) => {
        const clientRequestId = crypto.randomUUID()
        const text = JSON.stringify({ ...message, clientRequestId })
        waiting.set(clientRequestId, { text, resolve })
        if (socket?.readyState === WebSocket.OPEN) socket.send(text)
      }),
    close: () => {
      closed = true
      cancelRetry()
      socket?.close()
    },
  }
}
