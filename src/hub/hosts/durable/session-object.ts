/** One session as a Durable Object. Its memory may be lost at any time between two events: everything else is in its storage. */
import { ACCESS_ENDED, closeLostConnections } from "../../access/close-connections.ts"
import { openConfig } from "../../access/config-at-rest.ts"
import type { Directory } from "../../access/directory.ts"
import type { Keyring } from "../../access/encrypt.ts"
import {
  type GuardPorts,
  guardSocket,
  type HostedSession,
  markRead,
  type Sender,
} from "../../access/guarded-clients.ts"
import type { Owner } from "../../access/ownership.ts"
import { createSessionAccess } from "../../access/session-access.ts"
import { createArtifactObjects } from "../../artifact-objects.ts"
import { handleRequest } from "../../http-api.ts"
import { gatewayKey } from "../../keys.ts"
import { applyProvision, type Provision } from "../../provision.ts"
import { createPacedMessages, type PacedMessages } from "../../paced-messages.ts"
import { createRunnerMessages } from "../../runner-messages.ts"
import { createSession } from "../../session/session.ts"
import { consoleReport } from "./console-report.ts"
import { durableBlobs } from "./blobs.ts"
import { durableChats } from "./chats.ts"
import { durableChildren } from "./children.ts"
import { durableStorage, keyringOf, verifierOf } from "./environment.ts"
import { askGatewayUrl } from "./fleet.ts"
import { callObject, handleCall, nothing } from "./object-calls.ts"
import type { ObjectContext } from "./object-context.ts"
import { MOST_WAITING_OF_RUNNER, pace } from "./pace.ts"
import { remoteDirectory } from "./remote-directory.ts"
import type {
  DurableEnvironment,
  DurableSocket,
  DurableState,
  WorkersGlobals,
} from "./runtime-types.ts"
import { sessionCalls } from "./session-calls.ts"
import { sessionHttpHost } from "./session-http.ts"
import { sessionPorts } from "./session-ports.ts"
import { storeNameOf } from "./shared-store-object.ts"
import { durableSockets } from "./sockets.ts"
import { durableSql, hasTable } from "./sql.ts"

const workers = globalThis as unknown as WorkersGlobals

export class SessionAgent {
  readonly #context: ObjectContext
  readonly #keyring: Keyring | undefined
  #hosted: HostedSession | undefined
  /** By connection; made again after a sleep. */
  readonly #messages = new Map<string, PacedMessages>()

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#keyring = keyringOf(environment)
    const storage = durableStorage(environment)
    const directory = remoteDirectory(environment.DIRECTORY)
    this.#context = {
      state,
      environment,
      sockets: durableSockets(state),
      blobs: durableBlobs(state),
      directory,
      chats: durableChats(environment),
      verifyJwt: verifierOf(environment),
      guardPorts: this.#guardPorts(environment, directory),
      objects: storage && createArtifactObjects(storage, () => this.#hosted?.id ?? this.#name()),
      keyring: () => this.#keyring,
      name: () => this.#name(),
      hosted: () => this.#hosted,
      provision: (name, owner, fields) => this.#provision(name, owner, fields),
      end: (why, quiet) => this.#end(why, quiet),
      endChildren: () => this.#endChildren(),
      checkConnections: () => this.#checkConnections(),
    }
    // The runtime answers a ping without waking the object.
    state.setWebSocketAutoResponse(
      new workers.WebSocketRequestResponsePair('{"type":"ping"}', '{"type":"pong"}'),
    )
    // An object exists as soon as its name is used: without tables its session was never created.
    if (hasTable(state, "link")) this.#restore()
  }

  #restore(): void {
    const { state, sockets } = this.#context
    const sql = durableSql(state)
    const id = this.#name()
    const owner = createSessionAccess(sql, id, () => Date.now()).owner()
    const { text } = openConfig(sql, this.#keyring, owner, id)
    this.#open(id, text).session.recover(sockets.runners())
  }

  async fetch(request: Request): Promise<Response> {
    const response =
      (await handleCall(request, sessionCalls(this.#context))) ??
      (await handleRequest(await sessionHttpHost(this.#context), request))
    return response ?? new Response("", { status: 500 })
  }

  webSocketMessage(socket: DurableSocket, data: string | ArrayBuffer): void {
    const { id, sender } = this.#context.sockets.attachmentOf(socket)
    if (typeof data !== "string" || !this.#hosted) return
    const messages =
      this.#messages.get(id) ??
      (sender ? this.#messagesOfClient(id, sender, this.#hosted) : this.#messagesOfRunner(id))
    this.#messages.set(id, messages)
    messages.push(data)
  }

  #messagesOfRunner(id: string): PacedMessages {
    const { sockets } = this.#context
    const runner = () => this.#hosted?.session.runner
    return createRunnerMessages({
      ...pace,
      runner,
      receive: (text) => this.#contain(id, () => runner()?.receive(id, text)),
      close: (code, reason) => sockets.close(id, code, reason),
      maxWaiting: MOST_WAITING_OF_RUNNER,
    })
  }

  #messagesOfClient(id: string, sender: Sender, hosted: HostedSession): PacedMessages {
    const { state, sockets, guardPorts } = this.#context
    const guard = guardSocket(guardPorts, hosted, id, (text) => sockets.send(id, text))
    const receive = async (text: string) => {
      try {
        await guard.receive(text, sender)
      } catch (error) {
        this.#failed(error)
        sockets.close(id, 1011, "the message could not be handled")
      }
    }
    return createPacedMessages({
      ...pace,
      handle: (text) => state.waitUntil(receive(text)),
      tooMany: () => sockets.close(id, 1008, "too many messages at once"),
    })
  }

  /** A frame that cannot be handled closes the connection: the runner comes back and sends again. */
  #contain(id: string, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#failed(error)
      this.#context.sockets.close(id, 1011, "the hub could not store the frame")
    }
  }

  #failed(error: unknown): void {
    consoleReport(() => this.#name())("hub.failed", { error: String(error) })
  }

  webSocketClose(socket: DurableSocket, code: number, reason: string): void {
    const { state, sockets, guardPorts } = this.#context
    const { id, sender } = sockets.attachmentOf(socket)
    const closed = () => {
      if (!this.#hosted) return
      if (sender) state.waitUntil(markRead(guardPorts, this.#hosted, sender.principal))
      else this.#contain(id, () => this.#hosted?.session.runner.closed(id))
    }
    // It may have sent its last messages just before.
    const messages = this.#messages.get(id)
    this.#messages.delete(id)
    if (messages) messages.end(closed)
    else closed()
    sockets.close(id, code === 1005 || code === 1006 ? 1000 : code, reason)
  }

  webSocketError(socket: DurableSocket): void {
    this.webSocketClose(socket, 1011, "")
  }

  alarm(): void {
    this.#hosted?.session.alarm()
  }

  #guardPorts(environment: DurableEnvironment, directory: Directory): GuardPorts {
    const { HUB_GATEWAY_SECRET } = environment
    return {
      directory,
      now: () => Date.now(),
      terminate: () => this.#end("ended by a client"),
      gatewayKey: async ({ id, session }) =>
        HUB_GATEWAY_SECRET ? gatewayKey(HUB_GATEWAY_SECRET, id, session.generation()) : undefined,
      gatewayUrl: ({ id }) => askGatewayUrl(environment, id),
    }
  }

  /** Descendants first: a parent that has ended cannot end them any more. */
  async #end(why: string, quiet = false): Promise<void> {
    if (!this.#hosted) return
    await this.#endChildren()
    this.#hosted.session.terminate(why, { quiet })
  }

  async #endChildren(): Promise<void> {
    const { environment, directory } = this.#context
    if (!this.#hosted) return
    await durableChildren(environment, directory, this.#hosted).endAll(this.#hosted.id)
  }

  #checkConnections(): void {
    const { sockets } = this.#context
    if (!this.#hosted) return
    closeLostConnections(this.#hosted, sockets.people, Date.now(), (connection) =>
      sockets.close(connection, ...ACCESS_ENDED),
    )
  }

  async #provision(name: string, owner: Owner, fields: Provision): Promise<void> {
    const { SHARED_STORE } = this.#context.environment
    const { session } = this.#hosted ?? this.#create(name, owner, fields)
    await applyProvision(session, fields)
    if (fields.handle === undefined) return
    const store = storeNameOf(owner)
    await callObject(SHARED_STORE, store, nothing, "setHandle", [store, fields.handle, name])
  }

  #create(name: string, owner: Owner, { ancestors, creator }: Provision): HostedSession {
    const hosted = this.#open(name, undefined)
    this.#context.state.storage.sql.exec(
      "INSERT OR IGNORE INTO meta (name, value) VALUES ('name', ?)",
      name,
    )
    hosted.access.setOwner(owner, ancestors ?? [], creator)
    return hosted
  }

  /** The runtime does not tell an object its name: the request that created the session stored it. */
  #name(): string {
    const [row] = this.#context.state.storage.sql
      .exec("SELECT value FROM meta WHERE name = 'name'")
      .toArray()
    const value = row?.["value"]
    return typeof value === "string" ? value : ""
  }

  #open(id: string, config: string | undefined): HostedSession {
    const session = createSession(sessionPorts(this.#context), config)
    const access = createSessionAccess(durableSql(this.#context.state), id, () => Date.now())
    return (this.#hosted = { id, session, access })
  }
}
