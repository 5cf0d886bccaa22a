/** A Durable Object's connections: sockets that outlive its memory, found by tag, and streams that do not. */
import { type Connections, createConnections } from "../../connections.ts"
import type { Sockets } from "../../session/ports.ts"
import type { DurableSocket, DurableState } from "./runtime-types.ts"

interface Attachment {
  readonly id: string
  readonly role: "runner" | "client"
  readonly subscribed: boolean
}

export interface DurableSockets extends Sockets {
  readonly accept: (socket: DurableSocket, role: "runner" | "client") => string
  readonly who: (socket: DurableSocket) => Attachment
  readonly runners: () => readonly string[]
  readonly streams: Connections
}

export const durableSockets = (state: DurableState): DurableSockets => {
  const streams = createConnections()
  /** Reading an attachment takes it apart anew each time, and it is asked for at every frame. */
  const known = new WeakMap<DurableSocket, Attachment>()
  const who = (socket: DurableSocket): Attachment => {
    const attachment = known.get(socket) ?? (socket.deserializeAttachment() as Attachment)
    known.set(socket, attachment)
    return attachment
  }
  const mark = (socket: DurableSocket, attachment: Attachment) => {
    socket.serializeAttachment(attachment)
    known.set(socket, attachment)
  }
  const find = (id: string) => state.getWebSockets(`id:${id}`)[0]
  /** Asking the runtime for sockets at every word is slow: those that listen are kept, and found again after a sleep. */
  const listening = new Map<string, DurableSocket>(
    state.getWebSockets("client").flatMap((socket) => {
      const { id, subscribed } = who(socket)
      return subscribed ? [[id, socket] as const] : []
    }),
  )
  const deliver = (socket: DurableSocket | undefined, text: string) => {
    try {
      socket?.send(text)
    } catch {
      // It is closing: whoever was there comes back with its cursor.
    }
  }
  return {
    streams,
    who,
    accept: (socket, role) => {
      const id = crypto.randomUUID()
      state.acceptWebSocket(socket, [role, `id:${id}`])
      mark(socket, { id, role, subscribed: false })
      return id
    },
    runners: () => state.getWebSockets("runner").map((socket) => who(socket).id),
    send: (id, text) => {
      streams.send(id, text)
      deliver(listening.get(id) ?? find(id), text)
    },
    broadcast: (text) => {
      streams.broadcast(text)
      for (const socket of listening.values()) deliver(socket, text)
    },
    subscribe: (id) => {
      streams.subscribe(id)
      const socket = find(id)
      if (!socket) return
      mark(socket, { ...who(socket), subscribed: true })
      listening.set(id, socket)
    },
    close: (id, code, reason) => {
      streams.close(id, code, reason)
      listening.delete(id)
      find(id)?.close(code, reason)
    },
  }
}
