/** A Durable Object's connections: WebSockets, which survive its sleep and are found by tag, and streams, which do not. */
import { z } from "zod"
import { type Connections, createConnections } from "../../connections.ts"
import type { Sender } from "../../access/guarded-clients.ts"
import type { OpenConnection } from "../../access/open-connections.ts"
import type { Sockets } from "../../session/ports.ts"
import type { DurableSocket, DurableState } from "./runtime-types.ts"

/** Stored with each socket by the runtime, so that it is known after a sleep. */
const attachmentSchema = z.object({
  id: z.string(),
  subscribed: z.boolean(),
  /** Absent: the session's runner. Written by this object only. */
  sender: z.custom<Sender>((value) => typeof value === "object").optional(),
})
type Attachment = Readonly<z.output<typeof attachmentSchema>>

export interface DurableSockets extends Sockets {
  readonly accept: (socket: DurableSocket, sender: Sender | undefined) => string
  /** The open connections of clients, streams included. */
  readonly people: () => readonly OpenConnection[]
  readonly attachmentOf: (socket: DurableSocket) => Attachment
  readonly runners: () => readonly string[]
  readonly streams: Connections
}

export const durableSockets = (state: DurableState): DurableSockets => {
  const streams = createConnections()
  /** A cache: the runtime deserializes an attachment on every read, and every frame needs one. */
  const known = new WeakMap<DurableSocket, Attachment>()
  const attachmentOf = (socket: DurableSocket): Attachment => {
    const attachment = known.get(socket) ?? attachmentSchema.parse(socket.deserializeAttachment())
    known.set(socket, attachment)
    return attachment
  }
  const setAttachment = (socket: DurableSocket, attachment: Attachment) => {
    socket.serializeAttachment(attachment)
    known.set(socket, attachment)
  }
  const find = (id: string) => state.getWebSockets(`id:${id}`)[0]
  /** A cache, restored after a sleep: asking the runtime for sockets at every delta is slow. */
  const subscribed = new Map<string, DurableSocket>(
    state.getWebSockets("client").flatMap((socket) => {
      const attachment = attachmentOf(socket)
      return attachment.subscribed ? [[attachment.id, socket] as const] : []
    }),
  )
  const deliver = (socket: DurableSocket | undefined, text: string) => {
    try {
      socket?.send(text)
    } catch {
      // The socket is closing. The client reconnects with its cursor.
    }
  }
  return {
    streams,
    attachmentOf,
    accept: (socket, sender) => {
      const id = crypto.randomUUID()
      state.acceptWebSocket(socket, [sender ? "client" : "runner", `id:${id}`])
      setAttachment(socket, { id, subscribed: false, ...(sender && { sender }) })
      return id
    },
    people: () => [
      ...streams.people(),
      ...state.getWebSockets("client").flatMap((socket) => {
        const { id, sender } = attachmentOf(socket)
        return sender ? [{ id, principal: sender.principal }] : []
      }),
    ],
    runners: () => state.getWebSockets("runner").map((socket) => attachmentOf(socket).id),
    send: (id, text) => {
      streams.send(id, text)
      deliver(subscribed.get(id) ?? find(id), text)
    },
    broadcast: (text) => {
      streams.broadcast(text)
      for (const socket of subscribed.values()) deliver(socket, text)
    },
    subscribe: (id) => {
      streams.subscribe(id)
      const socket = find(id)
      if (!socket) return
      setAttachment(socket, { ...attachmentOf(socket), subscribed: true })
      subscribed.set(id, socket)
    },
    close: (id, code, reason) => {
      streams.close(id, code, reason)
      subscribed.delete(id)
      find(id)?.close(code, reason)
    },
  }
}
