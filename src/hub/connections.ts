/** The open connections of one session in this process, by id: WebSockets and event streams. */
import type { OpenConnection } from "./access/open-connections.ts"
import type { Principal } from "./access/principal.ts"
import type { Sockets } from "./session/ports.ts"

export interface Connection {
  readonly send: (text: string) => void
  readonly close: (code: number, reason: string) => void
  /** Subscribes it to the host's own publish mechanism. Without it, `broadcast` calls `send`. */
  readonly subscribe?: () => void
  /** Who opened it; a runner's connection has none. */
  readonly principal?: Principal | undefined
}

export interface Connections extends Sockets {
  readonly add: (id: string, connection: Connection) => void
  readonly remove: (id: string) => void
  /** The connections of clients, to be checked when access changes. */
  readonly people: () => readonly OpenConnection[]
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
    send: (id, text) => open.get(id)?.send(text),
    broadcast: (text) => {
      publish(text)
      for (const connection of subscribed.values()) connection.send(text)
    },
    subscribe: (id) => {
      const connection = open.get(id)
      if (connection?.subscribe) connection.subscribe()
      else if (connection) subscribed.set(id, connection)
    },
    close: (id, code, reason) => {
      const connection = open.get(id)
      open.delete(id)
      subscribed.delete(id)
      connection?.close(code, reason)
    },
    people: () =>
      [...open].flatMap(([id, { principal }]) => (principal ? [{ id, principal }] : [])),
    closeAll: (code, reason) => {
      for (const connection of open.values()) connection.close(code, reason)
    },
  }
}

/** Events queued for a slow reader before its stream is closed. It reconnects with its cursor and gets one replay. */
const MAX_QUEUED_EVENTS = 2000

/** A response of server-sent events. Their `id` is the cursor, so a browser's EventSource resumes by itself. */
export const eventStream = (
  connections: Connections,
  id: string,
  principal: Principal,
  begin: (id: string) => void,
): Response => {
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      connections.add(id, {
        send: (text) => {
          if ((controller.desiredSize ?? 0) < -MAX_QUEUED_EVENTS)
            return connections.close(id, 1013, "too slow")
          const rev = /"rev":(\d+)/.exec(text)?.[1]
          controller.enqueue(
            encoder.encode(`${rev === undefined ? "" : `id: ${rev}\n`}data: ${text}\n\n`),
          )
        },
        close: () => controller.close(),
        principal,
      })
      begin(id)
    },
    cancel: () => connections.remove(id),
  })
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  })
}
