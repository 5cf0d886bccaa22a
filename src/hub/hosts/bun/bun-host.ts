/** Hosts sessions on one machine: each is a SQLite file in the state directory; one loopback server serves them all. */
import type { Server, ServerWebSocket } from "bun"
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import type { Clock } from "../../../lib/clock.ts"
import { isLoopback } from "../../../lib/git-url.ts"
import type { Log } from "../../../lib/log.ts"
import type { Outbound, RequestFrame } from "../../../wire/frames/index.ts"
import type { Authentication } from "../../access/authenticate.ts"
import { ACCESS_ENDED, closeLostConnections } from "../../access/close-connections.ts"
import { openConfig, sealConfig } from "../../access/config-at-rest.ts"
import { createDirectory, type Directory } from "../../access/directory.ts"
import {
  type GuardedSocket,
  type GuardPorts,
  guardSocket,
  type HostedSession,
  markRead,
  type Sender,
} from "../../access/guarded-clients.ts"
import { handOver } from "../../access/hand-over.ts"
import { LOCAL_OWNER, type Owner, POOL_OWNER } from "../../access/ownership.ts"
import { watchDirectory } from "../../access/watch-directory.ts"
import { createLobby } from "../../lobby.ts"
import { readLobby } from "../../owner-routes.ts"
import { handlePage, type HubPage } from "../../page-door.ts"
import { LOGIN_CODE_MS } from "../../page-login-state.ts"
import { createFactsReporter } from "../../access/report-facts.ts"
import { createSessionAccess } from "../../access/session-access.ts"
import { createJwtVerifier, type JwtSettings } from "../../access/verify-jwt.ts"
import type { Personas } from "../../shared-store/personas.ts"
import { applyProvision } from "../../provision.ts"
import { migrate } from "../../session/schema.ts"
import { openHostKeyring } from "./host-keyring.ts"
import { type BunSql, openBunSql } from "./sql.ts"
import type { ConfiguredChats } from "../../adapters/configured-chats.ts"
import { receiveChat } from "../../adapters/receive-chat.ts"
import { type Connections, createConnections, eventStream } from "../../connections.ts"
import { FinalFailure } from "../../session/final-failure.ts"
import type {
  ArtifactObjects,
  DecisionOutcome,
  ExecutionDecision,
  Ports,
  SessionActivity,
} from "../../session/ports.ts"
import type { ChatServices } from "../../session/chat-services.ts"
import { createSession, type Session } from "../../session/session.ts"
import { digestOf } from "../../../lib/digest.ts"
import { createArtifactObjects } from "../../artifact-objects.ts"
import {
  authenticateRequest,
  type HttpApiHost,
  handleRequest,
  type StoredFile,
} from "../../http-api.ts"
import type { LocalSessions } from "../../local-sessions-port.ts"
import type { ObjectStorage } from "../../object-storage.ts"
import { hashOf } from "../../keys.ts"
import { type ChatCalls, createChatCalls } from "./chat-calls.ts"
import { createFailures } from "./failures.ts"
import { createPacedMessages, type PacedMessages } from "./paced-messages.ts"
import { timerAlarm } from "./timer-alarm.ts"

export interface HubOptions {
  readonly stateDir: string
  readonly port?: number
  /** The address that the server listens on; 127.0.0.1 if it is not given. */
  readonly hostname?: string | undefined
  /** Host names besides loopback that requests may have, such as the public one. */
  readonly names?: readonly string[] | undefined
  readonly clock: Clock
  readonly log: Log
  /** The operator's token. */
  readonly clientToken: string
  /** How people prove who they are; nothing set: only the operator, API keys and share links. */
  readonly jwt?: JwtSettings
  /** `HUB_ENCRYPTION_KEY`; a file in the state directory if it is not set. */
  readonly encryptionKey?: string | undefined
  /** The key that a session's gateway checks. */
  readonly gatewayKey?: (session: string, generation: number) => Promise<string>
  /** The address of the gateway of a session's sandbox, if a control plane knows it. */
  readonly gatewayUrl?: ((session: string) => Promise<string | undefined>) | undefined
  readonly allowedOrigins?: readonly string[]
  readonly answer: (session: string, frame: RequestFrame) => Promise<Record<string, unknown>>
  readonly workflowReported: (
    owner: Owner,
    executionId: string,
    envelope: Outbound<"workflow-execution-result">["envelope"],
    reportId: string,
  ) => void
  readonly decideExecution: (
    session: string,
    decision: ExecutionDecision,
  ) => Promise<DecisionOutcome>
  readonly ended: (session: string) => void
  readonly personas?: (owner: Owner) => Personas
  readonly setHandle?: (owner: Owner, handle: string, session: string) => void
  /** Sessions that this hub starts on its own machine. Read late, because they need the hub. */
  readonly localSessions?: (() => LocalSessions | undefined) | undefined
  readonly terminate: (session: string) => Promise<void>
  readonly hook: (trigger: string, request: Request) => Promise<Response>
  readonly chats?: ConfiguredChats | undefined
  /** Object storage for files that agents show. */
  readonly storage?: ObjectStorage | undefined
  /** Called when the activity of a session has changed, and once after it was opened. */
  readonly activity?: ((session: string, now: SessionActivity) => void) | undefined
  /** The page on a host name of its own; `newLink` makes a login link. */
  readonly page?:
    | (HubPage & { readonly host: string; readonly newLink: (port: number) => string })
    | undefined
  /** Routes of another module in the same server. Undefined: the request is the hub's. */
  readonly routes?: ((request: Request) => Promise<Response | undefined>) | undefined
}

export interface Hub {
  readonly port: number
  readonly url: string
  /** The WebSocket URL for a session's runner. */
  readonly runnerUrl: (session: string) => string
  readonly find: (id: string) => Session | undefined
  readonly hosted: (id: string) => HostedSession | undefined
  readonly directory: Directory
  /** Who sends this request: the operator, or a person with a JWT or an API key. */
  readonly authenticate: (request: Request) => Promise<Authentication>
  /** The existing session, or a new one of this owner; `ancestors` begins with its parent. */
  readonly create: (
    id: string,
    owner?: Owner,
    ancestors?: readonly string[],
    creator?: string,
  ) => Session
  /** Gives a session of the warm pool to an owner. Undefined if it is done, otherwise why it is refused. */
  readonly handOver: (id: string, owner: Owner) => Promise<string | undefined>
  /** Closes every connection and every file. Written data stays. */
  readonly stop: () => Promise<void>
}

interface OpenSession extends HostedSession {
  readonly connections: Connections
  readonly sql: BunSql
  readonly close: () => void
}

interface SocketData {
  readonly id: string
  /** Absent: it watches the list of sessions. */
  readonly session: string | undefined
  /** Absent: the session's runner. */
  readonly sender: Sender | undefined
  guard?: GuardedSocket
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
  const accessSql = openBunSql(join(folder, "access.db"))
  const directory = watchDirectory(createDirectory(accessSql, clock.now), () => lobby.changed())
  const lobby = createLobby({
    list: (principal) => readLobby({ directory, liveStatus }, principal),
    now: clock.now,
    later: (ms, run) => clock.after(ms, () => (stopped ? undefined : run())),
    failed: (error) => log.warn("hub.lobby-failed", { error: String(error) }),
  })
  const keyring = await openHostKeyring(options.encryptionKey, join(folder, "encryption.key"))
  const verifyJwt = createJwtVerifier(options.jwt ?? {}, { now: clock.now, fetch })

  const fileOf = (id: string) => join(sessionsFolder, `${encodeURIComponent(id)}.db`)
  const blobsFolder = (id: string) => join(folder, "blobs", encodeURIComponent(id))

  const objectsOf = (id: string) =>
    options.storage && createArtifactObjects(options.storage, () => id)

  const chatCalls = createChatCalls(clock, () => stopped)

  const storedBytes = (id: string) =>
    [fileOf(id), ...blobFiles(blobsFolder(id))].reduce((sum, file) => sum + sizeOf(file), 0)

  const load = (id: string, sql: BunSql, config: string | undefined): OpenSession => {
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
      objects: objectsOf(id),
      answer: (frame) => options.answer(id, frame),
      workflowReported: (...report) => {
        if (stopped) throw new Error("the hub has stopped")
        options.workflowReported(access.owner(), ...report)
      },
      tellParent: async (parent, report) => {
        const target = find(parent)
        if (target?.access.owner() !== access.owner())
          throw new FinalFailure(`session ${parent} does not exist`)
        target.session.childReported(id, report)
      },
      decideExecution: (decision) => options.decideExecution(id, decision),
      ended: () => options.ended(id),
      seal: (text) => sealConfig(keyring.current(), access.owner(), id, text),
      changed: (urgent) => reportFacts(urgent),
      checkConnections: () => checkConnections(id),
      chats: options.chats && withCalls(options.chats.port, chatCalls),
      activity: options.activity && onlyChanges((now) => options.activity?.(id, now)),
      report: (event, fields) => log.warn(event, { session: id, ...fields }),
    }
    const session = createSession(ports, config)
    const access = createSessionAccess(sql, id, clock.now)
    const reportFacts = createFactsReporter({
      directory,
      session: id,
      owner: access.owner,
      facts: () => ({ ...session.facts(), bytes: storedBytes(id) }),
      account: (account) => {
        if (!stopped) session.setOwnerAccount(account)
      },
      later: ports.later,
      failed: (error) => log.warn("hub.facts-not-reported", { session: id, error: String(error) }),
    })
    session.recover([])
    return {
      id,
      session,
      access,
      connections,
      sql,
      close: () => {
        alarm.set(undefined)
        sql.close()
      },
    }
  }

  const openExisting = async (id: string): Promise<void> => {
    const sql = openBunSql(fileOf(id))
    migrate(sql)
    const owner = createSessionAccess(sql, id, clock.now).owner()
    const { text, encrypted } = await openConfig(sql, keyring.current(), owner, id)
    // The plain text of before encryption must not stay in free pages of the file.
    if (encrypted) sql.compact()
    open.set(id, load(id, sql, text))
    list(id, owner)
  }
  /** A session of the warm pool is in no list. */
  const list = (id: string, owner: Owner) => {
    if (owner !== POOL_OWNER) void directory.adoptSession(id, owner)
  }
  const find = (id: string): OpenSession | undefined => open.get(id)
  const liveStatus = (id: string) => find(id)?.session.live()
  const create: Hub["create"] = (id, owner = LOCAL_OWNER, ancestors = [], creator) => {
    const known = find(id)
    if (known) return known.session
    const made = load(id, openBunSql(fileOf(id)), undefined)
    made.access.setOwner(owner, ancestors, creator)
    list(id, owner)
    open.set(id, made)
    return made.session
  }
  const checkConnections = (id: string) => {
    const found = find(id)
    if (!found || stopped) return
    const { connections } = found
    closeLostConnections(found, connections.people, clock.now(), (connection) =>
      connections.close(connection, ...ACCESS_ENDED),
    )
  }
  const names = () =>
    readdirSync(sessionsFolder)
      .filter((file) => file.endsWith(".db"))
      .map((file) => decodeURIComponent(file.slice(0, -3)))

  const clientTokenHash = await hashOf(options.clientToken)
  const guardPorts: GuardPorts = {
    directory,
    now: clock.now,
    gatewayKey: async ({ id, session }) => options.gatewayKey?.(id, session.generation()),
    gatewayUrl: async ({ id }) => options.gatewayUrl?.(id),
    terminate: options.terminate,
  }
  /** `original`: the browser's request, when the page's door has made another one of it. */
  const httpApi = (
    server: Server<SocketData>,
    original?: Request,
    socketProtocol?: string,
  ): HttpApiHost => ({
    ...guardPorts,
    clientTokenHash,
    verifyJwt,
    allowedOrigins: options.allowedOrigins ?? [],
    find,
    provision: async (id, owner, fields) => {
      await applyProvision(create(id, owner, fields.ancestors, fields.creator), fields)
      if (fields.handle !== undefined) options.setHandle?.(owner, fields.handle, id)
    },
    listPersonas: (owner) => options.personas?.(owner).list() ?? [],
    putPersona: (owner, persona) => options.personas?.(owner).put(persona) ?? false,
    removePersona: (owner, slug) => options.personas?.(owner).remove(slug) ?? false,
    startsSandboxes: options.activity !== undefined,
    localSessions: options.localSessions?.(),
    liveStatus,
    search: async (id, query, limit) => find(id)?.session.search(query, limit),
    from: (request) => server.requestIP(original ?? request)?.address,
    loginLink: async () =>
      options.page && {
        url: options.page.newLink(server.port ?? 0),
        expiresAt: clock.now() + LOGIN_CODE_MS,
      },
    checkConnections,
    keyRevoked: async (_owner, prefix) => {
      lobby.keyRevoked(prefix)
      for (const { connections } of open.values()) {
        for (const { id, principal } of connections.people()) {
          if (principal.kind === "person" && principal.key === prefix)
            connections.close(id, ...ACCESS_ENDED)
        }
      }
    },
    ownerChanged: async (owner, account) => {
      for (const { access, session } of open.values())
        if (access.owner() === owner) session.setOwnerAccount(account)
    },
    rotateKeys: () =>
      keyring.rotate(async () => {
        for (const { session } of open.values()) await session.configure({})
        return open.size
      }),
    hook: options.hook,
    chat: async (type, request) => {
      const chat = options.chats?.find(type)
      if (!chat) return new Response("", { status: 404 })
      return receiveChat(chat, request, (id, prompt, channel) => {
        const session = find(id)?.session
        if (!session || session.status().status === "ended") return "unavailable"
        session.prompt(prompt, channel, { fromChat: true })
        return "delivered"
      })
    },
    artifact: (session, id) =>
      readArtifact(blobsFolder(session), id, find(session)?.session, objectsOf(session)),
    upgrade: (request, session, sender) =>
      upgrade(server, original ?? request, { session, sender }, socketProtocol),
    upgradeLobby: (request, sender) =>
      upgrade(server, original ?? request, { session: undefined, sender }, socketProtocol),
    stream: (session, { principal }, begin) => {
      const connections = find(session)?.connections ?? createConnections()
      const response = eventStream(connections, crypto.randomUUID(), principal, begin)
      checkConnections(session)
      return response
    },
  })

  const openSessionOf = ({ data: { session } }: ServerWebSocket<SocketData>) =>
    session === undefined ? undefined : open.get(session)
  const paced = new Map<string, PacedMessages>()
  const clientMessages = (socket: ServerWebSocket<SocketData>): PacedMessages => {
    const { id } = socket.data
    const known = paced.get(id)
    if (known) return known
    const made = createPacedMessages({
      handle: (text) => {
        const { sender, guard, session } = socket.data
        if (stopped || !sender) return
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
  const failures = createFailures(log, clock)
  const server = Bun.serve<SocketData>({
    hostname: options.hostname ?? "127.0.0.1",
    port: options.port ?? 0,
    idleTimeout: 0,
    fetch: async (request, self) => {
      // Only loopback and configured host names: a website that resolves its own name to 127.0.0.1 (DNS rebinding) is refused.
      // A chat service calls through a proxy with a public name; its adapter checks the signature.
      const { hostname, pathname } = new URL(request.url)
      if (options.page?.host === hostname)
        return handlePage(options.page, request, (inner, protocol) =>
          handleRequest(httpApi(self, request, protocol), inner),
        )
      const isOwn = isLoopback(hostname) || options.names?.includes(hostname) === true
      if (!isOwn && !pathname.startsWith("/channels/")) return new Response("", { status: 421 })
      return (await options.routes?.(request)) ?? handleRequest(httpApi(self), request)
    },
    error: failures.response,
    websocket: {
      maxPayloadLength: MAX_FRAME_BYTES,
      idleTimeout: 255,
      backpressureLimit: MAX_UNSENT_BYTES,
      closeOnBackpressureLimit: true,
      open: (socket) => {
        const { id, sender, session } = socket.data
        if (session === undefined && sender)
          return lobby.add(id, {
            principal: sender.principal,
            send: (text) => void socket.send(text),
            close: (code, reason) => socket.close(code, reason),
          })
        const opened = openSessionOf(socket)
        if (!opened || session === undefined) return
        opened.connections.add(id, {
          send: (text) => void socket.send(text),
          close: (code, reason) => socket.close(code, reason),
          subscribe: () => socket.subscribe(session),
          principal: sender?.principal,
        })
        if (!sender) return failures.contain(socket, () => opened.session.runner.opened(id))
        socket.data.guard = guardSocket(guardPorts, opened, id, (text) =>
          opened.connections.send(id, text),
        )
        if (sender.principal.expiresAt !== undefined) checkConnections(opened.id)
      },
      message: (socket, data) => {
        const { id, sender } = socket.data
        if (sender) return clientMessages(socket).push(String(data))
        failures.contain(socket, () => {
          openSessionOf(socket)?.session.runner.receive(id, String(data))
        })
      },
      close: (socket) => {
        const { id, sender } = socket.data
        const opened = openSessionOf(socket)
        opened?.connections.remove(id)
        lobby.remove(id)
        paced.get(id)?.stop()
        paced.delete(id)
        if (stopped || !opened) return
        if (!sender) return failures.contain(socket, () => opened.session.runner.closed(id))
        void markRead(guardPorts, opened, sender.principal)
      },
    },
  })

  // Every session is opened at once: its deadlines and queue continue without a request.
  for (const name of names()) await openExisting(name)

  const port = server.port ?? 0
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    runnerUrl: (session) => `ws://127.0.0.1:${port}/sessions/${encodeURIComponent(session)}/ws`,
    find: (id) => find(id)?.session,
    hosted: find,
    directory,
    authenticate: (request) => authenticateRequest(httpApi(server), request),
    create,
    handOver: async (id, owner) => {
      const found = find(id)
      if (!found) return `there is no session ${id}`
      const refusal = await handOver({ ...found, keyring: keyring.current() }, owner)
      if (refusal === undefined) list(id, owner)
      return refusal
    },
    stop: async () => {
      await chatCalls.drain()
      for (const { session } of open.values()) session.runner.flush()
      stopped = true
      lobby.closeAll(1001, "the hub is shutting down")
      for (const { connections } of open.values())
        connections.closeAll(1001, "the hub is shutting down")
      await server.stop(true)
      for (const { close } of open.values()) close()
      open.clear()
      accessSql.close()
    },
  }
}

const upgrade = (
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

/** Blob ids are the hub's own; a name that could leave the folder is a fault of the program. */
const blobName = (id: string): string => {
  if (!/^[\w-]{1,64}$/.test(id))
    throw new Error("a blob id must be 1 to 64 letters, digits, _ or -")
  return id
}

const readArtifact = async (
  folder: string,
  id: string,
  session: Session | undefined,
  objects: ArtifactObjects | undefined,
): Promise<StoredFile | undefined> => {
  const mime = session?.artifactType(id)
  if (mime === undefined) return undefined
  const file = join(folder, blobName(id))
  if (existsSync(file)) return { mime, body: new Uint8Array(readFileSync(file)) }
  return objects && { mime, body: await objects.get(id) }
}

const blobFiles = (folder: string): readonly string[] =>
  existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** Commits are frequent; most of them do not change the activity. */
const onlyChanges = (tell: (now: SessionActivity) => void) => {
  let last = ""
  return (now: SessionActivity) => {
    const text = JSON.stringify(now)
    if (text === last) return
    last = text
    tell(now)
  }
}

const withCalls = (port: ChatServices, calls: ChatCalls): ChatServices => ({
  ...port,
  send: (...message) => calls.run(() => port.send(...message)),
  wasSent: (...message) => calls.run(() => port.wasSent(...message)),
})
