/** The directory of a deployment as one Durable Object: it also serves the routes that are about an owner. */
import { z } from "zod"
import { createAttempts } from "../../../lib/failed-attempts.ts"
import { createDirectory, type Directory as Store } from "../../access/directory.ts"
import type { Owner } from "../../access/ownership.ts"
import type { JwtVerifier } from "../../access/verify-jwt.ts"
import { type HttpApiHost, handleRequest } from "../../http-api.ts"
import { callerChecks, verifierOf } from "./environment.ts"
import { hasFleet } from "./fleet.ts"
import { callObject, handleCall, nothing } from "./object-calls.ts"
import { type DurableSockets, durableSockets } from "./sockets.ts"
import type {
  DurableEnvironment,
  DurableSocket,
  DurableState,
  WorkersGlobals,
} from "./runtime-types.ts"
import { createLobby, type Lobby } from "../../lobby.ts"
import { readLobby } from "../../owner-routes.ts"
import type { SearchResult } from "../../session/search.ts"
import { createStoredPageLogins, type StoredPageLogins } from "../../access/stored-page-logins.ts"
import { pageCalls } from "./page.ts"
import { watchDirectory } from "../../access/watch-directory.ts"
import { consoleReport } from "./console-report.ts"
import { storeNameOf } from "./shared-store-object.ts"
import { durableSql } from "./sql.ts"

const workers = globalThis as unknown as WorkersGlobals
const report = consoleReport(() => "directory")
const personaList = z.array(z.record(z.string(), z.unknown()))

export class Directory {
  readonly #environment: DurableEnvironment
  readonly #store: Store
  readonly #verifyJwt: JwtVerifier | undefined
  readonly #sockets: DurableSockets
  readonly #lobby: Lobby
  readonly #logins: StoredPageLogins
  /** In memory: an object that sleeps was not attacked. */
  readonly #wrongSecrets = createAttempts(() => Date.now()).failed

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#environment = environment
    const store = createDirectory(durableSql(state), () => Date.now())
    this.#lobby = createLobby({
      list: (principal) => readLobby({ directory: store, liveStatus: () => undefined }, principal),
      now: () => Date.now(),
      later: (ms, run) => {
        const timer = setTimeout(run, ms)
        return () => clearTimeout(timer)
      },
      failed: (error) => report("hub.lobby-failed", { error: String(error) }),
    })
    this.#store = watchDirectory(store, this.#lobby.changed)
    this.#verifyJwt = verifierOf(environment)
    this.#logins = createStoredPageLogins(durableSql(state), () => Date.now())
    this.#sockets = durableSockets(state)
    // WebSockets that survived a sleep of this object.
    for (const socket of state.getWebSockets("client")) this.#enter(socket)
    state.setWebSocketAutoResponse(
      new workers.WebSocketRequestResponsePair('{"type":"ping"}', '{"type":"pong"}'),
    )
  }

  #enter(socket: DurableSocket): void {
    const { id, sender, subscribed } = this.#sockets.attachmentOf(socket)
    if (!sender) return
    const connection = {
      principal: sender.principal,
      send: (text: string) => this.#sockets.send(id, text),
      close: (code: number, reason: string) => this.#sockets.close(id, code, reason),
      onSubscribed: () => this.#sockets.subscribe(id),
    }
    this.#lobby.add(id, connection, subscribed)
  }

  webSocketMessage(socket: DurableSocket, data: string | ArrayBuffer): void {
    if (typeof data === "string") this.#lobby.receive(this.#sockets.attachmentOf(socket).id, data)
  }

  webSocketClose(socket: DurableSocket, code: number, reason: string): void {
    const { id } = this.#sockets.attachmentOf(socket)
    this.#lobby.remove(id)
    this.#sockets.close(id, code === 1005 || code === 1006 ? 1000 : code, reason)
  }

  webSocketError(socket: DurableSocket): void {
    this.webSocketClose(socket, 1011, "")
  }

  async fetch(request: Request): Promise<Response> {
    const response =
      (await handleCall(request, {
        ...this.#store,
        ...pageCalls(this.#logins),
        wrongSecret: this.#wrongSecrets,
      })) ?? (await handleRequest(await this.#httpApi(), request))
    return response ?? new Response("", { status: 500 })
  }

  #call(session: string, name: string, ...args: readonly unknown[]): Promise<void> {
    return callObject(this.#environment.SESSIONS, session, nothing, name, args)
  }

  /** A session that cannot be reached does not prevent the calls to the others. */
  async #callAll(
    sessions: readonly string[],
    name: string,
    ...args: readonly unknown[]
  ): Promise<number> {
    const results = await Promise.allSettled(
      sessions.map((session) => this.#call(session, name, ...args)),
    )
    const failed = results.filter(({ status }) => status === "rejected").length
    if (failed > 0) throw new Error(`${failed} of ${sessions.length} sessions could not be reached`)
    return sessions.length
  }

  async #httpApi(): Promise<HttpApiHost> {
    const directory = this.#store
    const noSession = () => {
      throw new Error("the directory has no sessions of its own")
    }
    const callStore = <Schema extends z.ZodType>(
      owner: Owner,
      schema: Schema,
      name: string,
      ...args: readonly unknown[]
    ) => callObject(this.#environment.SHARED_STORE, storeNameOf(owner), schema, name, args)
    return {
      ...(await callerChecks(this.#environment)),
      wrongSecrets: this.#wrongSecrets,
      directory,
      verifyJwt: this.#verifyJwt,
      find: () => undefined,
      provision: (session, owner, fields) =>
        this.#call(session, "provision", session, owner, fields),
      startsSandboxes: hasFleet(this.#environment),
      liveStatus: () => undefined,
      // The result was written by a session of the same deployment.
      search: (session, query, limit) =>
        callObject(this.#environment.SESSIONS, session, z.unknown(), "search", [
          query,
          limit,
        ]) as Promise<SearchResult>,
      keyRevoked: async (owner, prefix) => {
        this.#lobby.keyRevoked(prefix)
        await this.#callAll(await directory.sessionsOf(owner), "keyRevoked", prefix)
      },
      ownerChanged: async (owner, account) =>
        void (await this.#callAll(await directory.sessionsOf(owner), "ownerAccount", account)),
      rotateKeys: async () => this.#callAll(await directory.sessionsOf("all"), "encryptAgain"),
      listPersonas: (owner) => callStore(owner, personaList, "listPersonas"),
      putPersona: (owner, persona) => callStore(owner, z.boolean(), "putPersona", persona),
      removePersona: (owner, slug) => callStore(owner, z.boolean(), "removePersona", slug),
      terminate: noSession,
      artifact: noSession,
      hook: noSession,
      chat: noSession,
      upgrade: noSession,
      loginLink: async ({ origin }) => {
        if (!this.#environment.ASSETS) return undefined
        const { code, expiresAt } = await this.#logins.issueCode()
        return { url: `${origin}/#login=${code}`, expiresAt }
      },
      upgradeLobby: (_request, sender) => {
        const pair = new workers.WebSocketPair()
        this.#sockets.accept(pair[1], sender)
        this.#enter(pair[1])
        return new Response(null, { status: 101, webSocket: pair[0] } as ResponseInit)
      },
      stream: noSession,
      checkConnections: noSession,
      gatewayKey: noSession,
    }
  }
}
