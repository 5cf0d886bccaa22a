/** The session agent on one machine: sessions as SQLite files in the state directory, one loopback server for all. */
import type { Server, ServerWebSocket } from "bun"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import type { Outbound, RequestFrame } from "../../../wire/frames/index.ts"
import { openBunSql } from "./sql.ts"
import { type Connections, createConnections, eventStream } from "../../connections.ts"
import type { Ports } from "../../session/ports.ts"
import { createSession, type Session } from "../../session/session.ts"
import { digestOf } from "../../../lib/digest.ts"
import { type DoorHost, enter } from "../../http-api.ts"
import { hashOf } from "../../keys.ts"
import { timerAlarm } from "./timer-alarm.ts"

export interface HubOptions {
  readonly stateDir: string
  readonly port?: number
  readonly clock: Clock
  readonly log: Log
  /** What clients show to come in. */
  readonly clientToken: string
  readonly allowedOrigins?: readonly string[]
  readonly answer: (session: string, frame: RequestFrame) => Promise<Record<string, unknown>>
  readonly executed: (
    executionId: string,
    envelope: Outbound<"workflow-execution-result">["envelope"],
  ) => void
  readonly ended: (session: string) => void
  readonly terminate: (session: string) => Promise<void>
  readonly hook: (trigger: string, request: Request) => Promise<Response>
}

export interface Hub {
  readonly port: number
  readonly url: string
  /** Where a session's runner connects. */
  readonly runnerUrl: (session: string) => string
  readonly find: (id: string) => Session | undefined
  readonly create: (id: string) => Session
  readonly names: () => readonly string[]
  /** Every connection is closed and every file; what was written stays. */
  readonly stop: () => Promise<void>
}

interface Open {
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
/** A client this far behind is let go; it comes back with its cursor. */
const MAX_BEHIND_BYTES = 8 * 1024 * 1024

export const startHub = async (options: HubOptions): Promise<Hub> => {
  const { clock, log } = options
  const folder = join(options.stateDir, "hub")
  const sessionsFolder = join(folder, "sessions")
  mkdirSync(sessionsFolder, { recursive: true, mode: 0o700 })
  const open = new Map<string, Open>()
  let stopped = false

  const fileOf = (id: string) => join(sessionsFolder, `${encodeURIComponent(id)}.db`)
  const blobs = (id: string) => join(folder, "blobs", encodeURIComponent(id))

  const load = (id: string): Open => {
    const sql = openBunSql(fileOf(id))
    // The server's own topics send one text to many sockets much faster than a loop does, and in the same order.
    const connections = createConnections((text) => void server.publish(id, text))
    const alarm = timerAlarm(clock, () => {
      if (!stopped) session.alarm()
    })
    const ports: Ports = {
      sql,
      sockets: connections,
      blobs: {
        put: (blob, _mime, base64) => {
          mkdirSync(blobs(id), { recursive: true, mode: 0o700 })
          writeFileSync(join(blobs(id), blob), Buffer.from(base64, "base64"), { mode: 0o600 })
        },
        get: (blob) => {
          const file = join(blobs(id), blob)
          return existsSync(file) ? readFileSync(file, "base64") : undefined
        },
        remove: (blob) => rmSync(join(blobs(id), blob), { force: true }),
        ids: () => (existsSync(blobs(id)) ? readdirSync(blobs(id)) : []),
      },
      alarm,
      now: clock.now,
      newId: () => crypto.randomUUID(),
      digest: digestOf,
      chance: Math.random,
      later: (ms, run) => clock.after(ms, () => (stopped ? undefined : run())),
      answer: (frame) => options.answer(id, frame),
      executed: options.executed,
      ended: () => options.ended(id),
      report: (event, fields) => log.warn(event, { session: id, ...fields }),
    }
    const session = createSession(ports)
    session.woke([])
    return {
      session,
      connections,
      close: () => {
        alarm.set(undefined)
        sql.close()
      },
    }
  }

  const find = (id: string): Open | undefined => {
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
  const door = (server: Server<SocketData>): DoorHost => ({
    clientTokenHash,
    allowedOrigins: options.allowedOrigins ?? [],
    find: (id) => find(id)?.session,
    create,
    list: () => names().map((id) => ({ id, ...find(id)?.session.status() })),
    terminate: options.terminate,
    hook: options.hook,
    artifact: (session, id) => readBlob(blobs(session), id, find(session)?.session),
    upgrade: (request, session, role) =>
      server.upgrade(request, { data: { id: crypto.randomUUID(), session, role } })
        ? undefined
        : new Response("a WebSocket is expected here", { status: 426 }),
    stream: (session, begin) => {
      const connections = find(session)?.connections ?? createConnections()
      return eventStream(connections, crypto.randomUUID(), begin)
    },
  })

  const partsOf = ({ data }: ServerWebSocket<SocketData>) => open.get(data.session)
  const server = Bun.serve<SocketData>({
    hostname: "127.0.0.1",
    port: options.port ?? 0,
    idleTimeout: 0,
    fetch: (request, self) => {
      // Only names that mean this machine: a page that points its own name here gets nothing.
      if (!isLoopback(new URL(request.url).hostname)) return new Response("", { status: 421 })
      return enter(door(self), request)
    },
    websocket: {
      maxPayloadLength: MAX_FRAME_BYTES,
      idleTimeout: 255,
      backpressureLimit: MAX_BEHIND_BYTES,
      closeOnBackpressureLimit: true,
      open: (socket) => {
        const { id, role } = socket.data
        const parts = partsOf(socket)
        parts?.connections.add(id, {
          send: (text) => void socket.send(text),
          close: (code, reason) => socket.close(code, reason),
          listen: () => socket.subscribe(socket.data.session),
        })
        if (role === "runner") parts?.session.runner.opened(id)
      },
      message: (socket, data) => {
        const { id, role } = socket.data
        const session = partsOf(socket)?.session
        const side = role === "runner" ? session?.runner : session?.clients
        side?.said(id, String(data))
      },
      close: (socket) => {
        const { id, role } = socket.data
        const parts = partsOf(socket)
        parts?.connections.remove(id)
        if (role === "runner" && !stopped) parts?.session.runner.closed(id)
      },
    },
  })

  // What an earlier life left to be done is looked at now, not when somebody asks.
  for (const name of names()) find(name)

  const port = server.port ?? 0
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    runnerUrl: (session) => `ws://127.0.0.1:${port}/sessions/${encodeURIComponent(session)}/ws`,
    find: (id) => find(id)?.session,
    create,
    names,
    stop: async () => {
      for (const { session } of open.values()) session.runner.flush()
      stopped = true
      for (const { connections } of open.values()) connections.closeAll(1001, "the hub stops")
      await server.stop(true)
      for (const { close } of open.values()) close()
      open.clear()
    },
  }
}

const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "[::1]" || host.startsWith("127.")

const readBlob = (folder: string, id: string, session: Session | undefined) => {
  const artifacts = session?.snapshot()["artifacts"] as { id: string; mime: string }[] | undefined
  const found = artifacts?.find((artifact) => artifact.id === id)
  if (!found || !existsSync(join(folder, found.id))) return undefined
  return { mime: found.mime, body: new Uint8Array(readFileSync(join(folder, found.id))) }
}
