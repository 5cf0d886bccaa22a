/** One connection to a session: it delivers events and replies, and is dialled again after a cut. */
import type { ClientMessage, Reply } from "../../../wire/clients/verbs.ts"
import type { HubEvent } from "../../view/view.ts"
import { type Dialled, dial } from "./dial.ts"

/** The verbs that this login may use in the session. */
export interface AccessEvent {
  readonly type: "access"
  readonly verbs: readonly string[]
}

export interface SocketEvents {
  /** The connection is open: send `subscribe` and everything that waits. */
  readonly onOpen: () => void
  /** `wait` is the time until the next attempt. */
  readonly onClosed: (wait: number) => void
  readonly onRefused: () => void
  readonly onEvent: (event: HubEvent | AccessEvent) => void
  readonly onReply: (clientRequestId: string, reply: Reply) => void
}

export interface Socket extends Omit<Dialled, "send"> {
  /** `false` when the connection is not open. */
  readonly send: (message: ClientMessage) => boolean
}

/** Close codes with which the hub says that this login may not read the session. */
const REFUSED = new Set([1008, 4401, 4403])

export const openSocket = (path: string, events: SocketEvents): Socket => {
  const receive = (text: string) => {
    const message = JSON.parse(text) as { readonly type: string; readonly clientRequestId?: string }
    if (message.type === "pong") return
    if (message.type === "reply") {
      const { type: _type, clientRequestId, ...reply } = message
      if (clientRequestId !== undefined) events.onReply(clientRequestId, reply as unknown as Reply)
    } else events.onEvent(message as unknown as HubEvent)
  }
  const socket = dial({
    path,
    firstWaitMs: 250,
    maxWaitMs: 15_000,
    onOpen: events.onOpen,
    onText: receive,
    onClosed: events.onClosed,
    isFinal: (code) => REFUSED.has(code),
    onFinal: events.onRefused,
  })
  return { ...socket, send: (message) => socket.send(JSON.stringify(message)) }
}
