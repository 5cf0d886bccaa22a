/** The WebSockets of the Bun host: of runners, of clients of a session, and of those that watch the list of sessions. */
import type { Server, ServerWebSocket, WebSocketHandler } from "bun"
import type { Log } from "../../../lib/log.ts"
import {
  type GuardedSocket,
  type GuardPorts,
  guardSocket,
  markRead,
  type Sender,
} from "../../access/guarded-clients.ts"
import type { Lobby } from "../../lobby.ts"
import { createPacedMessages, type PacedMessages } from "../../paced-messages.ts"
import { createRunnerMessages, MAX_FRAME_BYTES } from "../../runner-messages.ts"
import type { Failures } from "./failures.ts"
import type { Sessions } from "./sessions.ts"

export interface SocketData {
  readonly id: string
  /** Absent: it watches the list of sessions. */
  readonly session: string | undefined
  /** Absent: the session's runner. */
  readonly sender: Sender | undefined
  guard?: GuardedSocket
}

export interface SocketsOptions {
  readonly sessions: Sessions
  readonly lobby: Lobby
  readonly guardPorts: GuardPorts
  readonly failures: Failures
  readonly isStopped: () => boolean
  readonly log: Log
}

/** A client that is further behind is disconnected; it resumes with its cursor. */
const MAX_UNSENT_BYTES = 8 * 1024 * 1024

export const createSockets = (options: SocketsOptions): WebSocketHandler<SocketData> => {
  const { sessions, lobby, guardPorts, failures, isStopped, log } = options
  const openSessionOf = ({ data: { session } }: ServerWebSocket<SocketData>) =>
    session === undefined ? undefined : sessions.find(session)
  const paced = new Map<string, PacedMessages>()
  const clientMessages = (socket: ServerWebSocket<SocketData>): PacedMessages => {
    const { id } = socket.data
    const known = paced.get(id)
    if (known) return known
    const made = createPacedMessages({
      handle: (text) => {
        const { sender, guard, session } = socket.data
        if (isStopped() || !sender) return
        if (session === undefined) return lobby.receive(id, text)
        guard?.receive(text, sender).catch((error: unknown) => {
          log.warn("hub.client-message-failed", { error: String(error) })
          socket.close(1011, "the message could not be handled")
        })
      },
      tooMany: () => socket.close(1008, "too many messages at once"),
      now: () => performance.now(),
      soon: (run) => void setImmediate(run),
    })
    paced.set(id, made)
    return made
  }
  const runnerMessages = (socket: ServerWebSocket<SocketData>): PacedMessages => {
    const { id } = socket.data
    const known = paced.get(id)
    if (known) return known
    const runner = () => openSessionOf(socket)?.session.runner
    const made = createRunnerMessages({
      runner,
      receive: (text) => {
        if (!isStopped()) failures.contain(socket, () => runner()?.receive(id, text))
      },
      close: (code, reason) => socket.close(code, reason),
      setReading: (isReading) => (isReading ? socket.resume() : socket.pause()),
      now: () => performance.now(),
      soon: (run) => void setImmediate(run),
    })
    paced.set(id, made)
    return made
  }
  return {
    maxPayloadLength: MAX_FRAME_BYTES,
    idleTimeout: 255,
    backpressureLimit: MAX_UNSENT_BYTES,
    closeOnBackpressureLimit: true,
    open: (socket) => {
      const { id, sender, session } = socket.data
      const connection = {
        send: (text: string) => void socket.send(text),
        close: (code: number, reason: string) => socket.close(code, reason),
      }
      if (session === undefined && sender)
        return lobby.add(id, { ...connection, principal: sender.principal })
      const opened = openSessionOf(socket)
      if (!opened || session === undefined) return
      opened.connections.add(id, {
        ...connection,
        subscribe: () => socket.subscribe(session),
        principal: sender?.principal,
      })
      if (!sender) return failures.contain(socket, () => opened.session.runner.opened(id))
      socket.data.guard = guardSocket(guardPorts, opened, id, (text) =>
        opened.connections.send(id, text),
      )
      if (sender.principal.expiresAt !== undefined) sessions.checkConnections(opened.id)
    },
    message: (socket, data) => {
      if (socket.data.sender) return clientMessages(socket).push(String(data))
      runnerMessages(socket).push(String(data))
    },
    close: (socket) => {
      const { id, sender } = socket.data
      const opened = openSessionOf(socket)
      opened?.connections.remove(id)
      lobby.remove(id)
      const messages = paced.get(id)
      paced.delete(id)
      if (sender) messages?.stop()
      if (isStopped() || !opened) return
      if (sender) return void markRead(guardPorts, opened, sender.principal)
      const closed = () => failures.contain(socket, () => opened.session.runner.closed(id))
      // A runner may have sent its last frames just before.
      if (messages) messages.end(closed)
      else closed()
    },
  }
}

/** `undefined` when the request has become a WebSocket. */
export const upgradeRequest = (
  server: Server<SocketData>,
  request: Request,
  data: Omit<SocketData, "id" | "guard">,
  protocol: string | undefined,
): Response | undefined =>
  server.upgrade(request, {
    data: { id: crypto.randomUUID(), ...data },
    ...(protocol !== undefined && { headers: { "sec-websocket-protocol": protocol } }),
  })
    ? undefined
    : new Response("this route is a WebSocket", { status: 426 })
