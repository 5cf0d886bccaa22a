/** The open connections of one session in this process, by their id: sockets and event streams alike. */
import type { Sockets } from "./session/ports.ts"

export interface Connection {
  readonly send: (text: string) => void
  readonly close: (code: number, reason: string) => void
  /** Has what is published reach it from now on; one without it is sent to. */
  readonly listen?: () => void
}

export interface Connections extends Sockets {
  readonly add: (id: string, connection: Connection) => void
  readonly remove: (id: string) => void
  readonly ids: () => readonly string[]
  readonly closeAll: (code: number, reason: string) => void
}

export const createConnections = (publish: (text: string) => void = () => {}): Connections => {
  const open = new Map<string, Connection>()
  const subscribed = new Map<string, Connection>()
  return {
    add: (id, connection) => void open.set(id, connection),
    remove: (id) => {
      open.delete(id)
      subscribed.delete(id)
    },
    ids: () => [...open.keys()],
    send: (id, text) => open.get(id)?.send(text),
    broadcast: (text) => {
      publish(text)
      for (const connection of subscribed.values()) connection.send(text)
    },
    subscribe: (id) => {
      const connection = open.get(id)
      if (connection?.listen) connection.listen()
      else if (connection) subscribed.set(id, connection)
    },
    close: (id, code, reason) => {
      const connection = open.get(id)
      open.delete(id)
      subscribed.delete(id)
      connection?.close(code, reason)
    },
    closeAll: (code, reason) => {
      for (const connection of open.values()) connection.close(code, reason)
    },
  }
}

const MOST_BEHIND = 2000

/** An answer of server-sent events; `id` is the cursor, so that a browser's EventSource goes on where it was. */
export const eventStream = (
  connections: Connections,
  id: string,
  begin: (id: string) => void,
): Response => {
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      connections.add(id, {
        send: (text) => {
          // A reader this far behind is let go: it comes back with its cursor and gets what it missed in one piece.
          if ((controller.desiredSize ?? 0) < -MOST_BEHIND)
            return connections.close(id, 1013, "too slow")
          const rev = /"rev":(\d+)/.exec(text)?.[1]
          controller.enqueue(
            encoder.encode(`${rev === undefined ? "" : `id: ${rev}\n`}data: ${text}\n\n`),
          )
        },
        close: () => controller.close(),
      })
      begin(id)
    },
    cancel: () => connections.remove(id),
  })
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  })
}
