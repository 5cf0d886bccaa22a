/** Hosts sessions on one machine: each is a SQLite file in the state directory; one loopback server serves them all. */
import type { Server, ServerWebSocket } from "bun"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import { isLoopback } from "../../../lib/git-url.ts"
import type { Log } from "../../../lib/log.ts"
import type { Outbound, RequestFrame } from "../../../wire/frames/index.ts"
import { openBunSql } from "./sql.ts"
import type { ConfiguredChats } from "../../adapters/configured-chats.ts"
import { receiveChat } from "../../adapters/receive-chat.ts"
import { type Connections, createConnections, eventStream } from "../../connections.ts"
import type { DecisionOutcome, ExecutionDecision, Ports } from "../../session/ports.ts"
import { createSession, type Session } from "../../session/session.ts"
import { digestOf } from "../../../lib/digest.ts"
import { type HttpApiHost, handleRequest } from "../../http-api.ts"
import { hashOf } from "../../keys.ts"
import { createPacedMessages, type PacedMessages } from "./paced-messages.ts"
import { timerAlarm } from "./timer-alarm.ts"

export interface HubOptions {
  readonly stateDir: string
  readonly port?: number
  readonly clock: Clock
  readonly log: Log
  /** Clients must send it to connect. */
  readonly clientToken: string
  readonly allowedOrigins?: readonly string[]
  readonly answer: (session: string, frame: RequestFrame) => Promise<Record<string, unknown>>
  readonly workflowReported: (
    executionId: string,
    envelope: Outbound<"workflow-execution-result">["envelope"],
  ) => void
  readonly decideExecution: (
    session: string,
    decision: ExecutionDecision,
  ) => Promise<DecisionOutcome>
  readonly ended: (session: string) => void
  readonly terminate: (session: string) => Promise<void>
  readonly hook: (trigger: string, request: Request) => Promise<Response>
  readonly chats?: ConfiguredChats | undefined
}

export interface Hub {
  readonly port: number
  readonly url: string
  /** The WebSocket URL for a session's runner. */
  readonly runnerUrl: (session: string) => string
  readonly find: (id: string) => Session | undefined
  readonly create: (id: string) => Session
  /** Closes every connection and every file. Written data stays. */
  readonly stop: () => Promise<void>
}

interface OpenSession {
  readonly session: Session
  readonly connections: Connections
  readonly close: () => void
}

interface SocketData {
  readonly id: string
  readonly session: string
  readonly role: "runner" | "client"
}

const MAX_FRAME_BYTES = 32 * 1024 * 1024
/** A client that is further behind is disconnected; it resumes with its cursor. */
const MAX_UNSENT_BYTES = 8 * 1024 * 1024

export const startHub = async (options: HubOptions): Promise<Hub> => {
  const { clock, log } = options
  const folder = join(options.stateDir, "hub")
  const sessionsFolder = join(folder, "sessions")
  mkdirSync(sessionsFolder, { recursive: true, mode: 0o700 })
  const open = new Map<string, OpenSession>()
  let stopped = false

  const fileOf = (id: string) => join(sessionsFolder, `${encodeURIComponent(id)}.db`)
  const blobsFolder = (id: string) => join(folder, "blobs", encodeURIComponent(id))

  /** Never resolves after the stop. */
  const untilOpen = (): Promise<void> => (stopped ? new Promise(() => {}) : Promise.resolve())

  const load = (id: string): OpenSession => {
    const sql = openBunSql(fileOf(id))
    // Bun's topics send one text to many sockets much faster than a loop, in the same order.
    const connections = createConnections((text) => void server.publish(id, text))
    const alarm = timerAlarm(clock, () => {
      if (!stopped) session.alarm()
    })
    const ports: Ports = {
      sql,
      sockets: connections,
      blobs: {
        put: (blob, _mime, base64) => {
          mkdirSync(blobsFolder(id), { recursive: true, mode: 0o700 })
          writeFileSync(join(blobsFolder(id), blobName(blob)), Buffer.from(base64, "base64"), {
            mode: 0o600,
          })
        },
        get: (blob) => {
          const file = join(blobsFolder(id), blobName(blob))
          return existsSync(file) ? readFileSync(file, "base64") : undefined
        },
        remove: (blob) => rmSync(join(blobsFolder(id), blobName(blob)), { force: true }),
        ids: () => (existsSync(blobsFolder(id)) ? readdirSync(blobsFolder(id)) : []),
      },
      alarm,
      now: clock.now,
      newId: () => crypto.randomUUID(),
      digest: digestOf,
      random: Math.random,
      later: (ms, run) => clock.after(ms, () => (stopped ? undefined : run())),
      answer: (frame) => options.answer(id, frame),
      workflowReported: options.workflowReported,
      decideExecution: (decision) => options.decideExecution(id, decision),
      ended: () => options.ended(id),
      chats: options.chats && {
        ...options.chats.port,
        // After the stop the database is closed: the result is not recorded, and the next start sends again.
        send: async (...message) => {
          try {
            await options.chats?.port.send(...message)
          } finally {
            await untilOpen()
          }
        },
      },
      report: (event, fields) => log.warn(event, { session: id, ...fields }),
    }
    const session = createSession(ports)
    session.recover([])
    return {
      session,
      connections,
      close: () => {
        alarm.set(undefined)
        sql.close()
      },
    }
  }

  const find = (id: string): OpenSession | undefined => {
    const known = open.get(id)
    if (known || !existsSync(fileOf(id))) return known
    const loaded = load(id)
    open.set(id, loaded)
    return loaded
  }
  const create = (id: string): Session => {
    const known = find(id)
    if (known) return known.session
    const made = load(id)
    open.set(id, made)
    return made.session
  }
  const names = () =>
    readdirSync(sessionsFolder)
      .filter((file) => file.endsWith(".db"))
      .map((file) => decodeURIComponent(file.slice(0, -3)))

  const clientTokenHash = await hashOf(options.clientToken)
  const httpApi = (server: Server<SocketData>): HttpApiHost => ({
    clientTokenHash,
    allowedOrigins: options.allowedOrigins ?? [],
    find: (id) => find(id)?.session,
    create,
    list: () => names().map((id) => ({ id, ...find(id)?.session.status() })),
    terminate: options.terminate,
    hook: options.hook,
    chat: async (type, request) => {
      const chat = options.chats?.find(type)
      if (!chat) return new Response("", { status: 404 })
      return receiveChat(chat, request, (id, prompt, channel) => {
        const session = find(id)?.session
        if (!session || session.status().status === "ended") return "unavailable"
        session.prompt(prompt, channel)
        return "delivered"
      })
    },
    artifact: (session, id) => readArtifact(blobsFolder(session), id, find(session)?.session),
    upgrade: (request, session, role) =>
      server.upgrade(request, { data: { id: crypto.randomUUID(), session, role } })
        ? undefined
        : new Response("this route is a WebSocket", { status: 426 }),
    stream: (session, begin) => {
      const connections = find(session)?.connections ?? createConnections()
      return eventStream(connections, crypto.randomUUID(), begin)
    },
  })

  const openSessionOf = ({ data }: ServerWebSocket<SocketData>) => open.get(data.session)
  const paced = new Map<string, PacedMessages>()
  const clientMessages = (socket: ServerWebSocket<SocketData>): PacedMessages => {
    const { id } = socket.data
    const known = paced.get(id)
    if (known) return known
    const made = createPacedMessages({
      handle: (text) => {
        if (!stopped) openSessionOf(socket)?.session.clients.receive(id, text)
      },
      tooMany: () => socket.close(1008, "too many messages at once"),
      now: () => performance.now(),
      soon: (run) => void setImmediate(run),
    })
    paced.set(id, made)
    return made
  }
  const server = Bun.serve<SocketData>({
    hostname: "127.0.0.1",
    port: options.port ?? 0,
    idleTimeout: 0,
    fetch: (request, self) => {
      // Only loopback host names: a website that resolves its own name to 127.0.0.1 (DNS rebinding) is refused.
      // A chat service calls through a proxy with a public name; its adapter checks the signature.
      const { hostname, pathname } = new URL(request.url)
      if (!isLoopback(hostname) && !pathname.startsWith("/channels/"))
        return new Response("", { status: 421 })
      return handleRequest(httpApi(self), request)
    },
    websocket: {
      maxPayloadLength: MAX_FRAME_BYTES,
      idleTimeout: 255,
      backpressureLimit: MAX_UNSENT_BYTES,
      closeOnBackpressureLimit: true,
      open: (socket) => {
        const { id, role } = socket.data
        const opened = openSessionOf(socket)
        opened?.connections.add(id, {
          send: (text) => void socket.send(text),
          close: (code, reason) => socket.close(code, reason),
          subscribe: () => socket.subscribe(socket.data.session),
        })
        if (role === "runner") opened?.session.runner.opened(id)
      },
      message: (socket, data) => {
        const { id, role } = socket.data
        if (role === "client") return clientMessages(socket).push(String(data))
        openSessionOf(socket)?.session.runner.receive(id, String(data))
      },
      close: (socket) => {
        const { id, role } = socket.data
        const opened = openSessionOf(socket)
        opened?.connections.remove(id)
        paced.get(id)?.stop()
        paced.delete(id)
        if (role === "runner" && !stopped) opened?.session.runner.closed(id)
      },
    },
  })

  // Every session is opened at once: its deadlines and queue continue without a request.
  for (const name of names()) find(name)

  const port = server.port ?? 0
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    runnerUrl: (session) => `ws://127.0.0.1:${port}/sessions/${encodeURIComponent(session)}/ws`,
    find: (id) => find(id)?.session,
    create,
    stop: async () => {
      for (const { session } of open.values()) session.runner.flush()
      stopped = true
      for (const { connections } of open.values())
        connections.closeAll(1001, "the hub is shutting down")
      await server.stop(true)
      for (const { close } of open.values()) close()
      open.clear()
    },
  }
}

/** Blob ids are the hub's own; a name that could leave the folder is a fault of the program. */
const blobName = (id: string): string => {
  if (!/^[\w-]{1,64}$/.test(id))
    throw new Error("a blob id must be 1 to 64 letters, digits, _ or -")
  return id
}

const readArtifact = (folder: string, id: string, session: Session | undefined) => {
  const found = session?.snapshot().artifacts.find((artifact) => artifact.id === id)
  if (!found || !existsSync(join(folder, found.id))) return undefined
  return { mime: found.mime, body: new Uint8Array(readFileSync(join(folder, found.id))) }
}
