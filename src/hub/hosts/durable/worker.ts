/** The session agent on the Workers runtime: one Durable Object per session, with the same session and HTTP API as on Bun. */
import { z } from "zod"
import { eventStream } from "../../connections.ts"
import type { ConfiguredChats } from "../../adapters/configured-chats.ts"
import { receiveChat } from "../../adapters/receive-chat.ts"
import { durableChats } from "./chats.ts"
import { type DurableBlobs, durableBlobs } from "./blobs.ts"
import { consoleReport } from "./console-report.ts"
import { callObject, handleCall, nothing } from "./object-calls.ts"
import { digestOf } from "../../../lib/digest.ts"
import { isStorageFull } from "../../../lib/storage-full.ts"
import { answerRunnerRequest } from "./runner-requests.ts"
import type { ArtifactObjects, Ports } from "../../session/ports.ts"
import { routeOf } from "../../session/routes.ts"
import { createSession, type Session } from "../../session/session.ts"
import { createArtifactObjects } from "../../artifact-objects.ts"
import { type HttpApiHost, handleRequest } from "../../http-api.ts"
import { type DurableSockets, durableSockets } from "./sockets.ts"
import { durableSql, hasTable } from "./sql.ts"
import type {
  DurableEnvironment,
  DurableNamespace,
  DurableSocket,
  DurableState,
  WorkersGlobals,
} from "./runtime-types.ts"
import { ACCESS_ENDED, closeLostConnections } from "../../access/close-connections.ts"
import { openConfig, sealConfig } from "../../access/config-at-rest.ts"
import type { Directory, OwnerAccount } from "../../access/directory.ts"
import type { Keyring } from "../../access/encrypt.ts"
import {
  type GuardedSocket,
  type GuardPorts,
  guardSocket,
  type HostedSession,
  markRead,
} from "../../access/guarded-clients.ts"
import { handOver } from "../../access/hand-over.ts"
import { LOCAL_OWNER, type Owner, POOL_OWNER } from "../../access/ownership.ts"
import { createFactsReporter } from "../../access/report-facts.ts"
import { createSessionAccess } from "../../access/session-access.ts"
import type { JwtVerifier } from "../../access/verify-jwt.ts"
import { gatewayKey } from "../../keys.ts"
import { applyProvision, type Provision } from "../../provision.ts"
import { durableChildren } from "./children.ts"
import { preflightResponse, withCors } from "../../cors.ts"
import { errorResponse, storageFullResponse } from "../../http-responses.ts"
import { doorOf, durableStorage, keyringOf, originsOf, verifierOf } from "./environment.ts"
import { askGatewayUrl, handleFleetCall, hasFleet, tellFleet } from "./fleet.ts"
import { DIRECTORY_NAME, remoteDirectory } from "./remote-directory.ts"
import { durablePage, withProtocol } from "./page.ts"
import { handlePage } from "../../page-door.ts"
import { findPageRoute } from "../../../lib/page/page-routes.ts"
import { storeNameOf, storeOfTrigger } from "./shared-store-object.ts"
import type { EffectReceiver } from "../../shared-store/session-deliveries.ts"
import { FinalFailure } from "../../session/final-failure.ts"

export { Directory } from "./directory-object.ts"
export { SharedStore } from "./shared-store-object.ts"

const workers = globalThis as unknown as WorkersGlobals

export class SessionAgent {
  readonly #state: DurableState
  readonly #environment: DurableEnvironment
  readonly #sockets: DurableSockets
  readonly #blobs: DurableBlobs
  readonly #directory: Directory
  readonly #verifyJwt: JwtVerifier | undefined
  #keyring: Keyring | undefined
  #hosted: HostedSession | undefined
  /** Guards of the WebSockets by connection; made again after a sleep. */
  readonly #guards = new Map<string, GuardedSocket>()
  readonly #chats: ConfiguredChats

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#state = state
    this.#environment = environment
    this.#chats = durableChats(environment)
    this.#sockets = durableSockets(state)
    this.#blobs = durableBlobs(state)
    this.#directory = remoteDirectory(environment.DIRECTORY)
    this.#verifyJwt = verifierOf(environment)
    // The runtime answers a ping without waking the object.
    state.setWebSocketAutoResponse(
      new workers.WebSocketRequestResponsePair('{"type":"ping"}', '{"type":"pong"}'),
    )
    // An object exists as soon as its name is used: without tables its session was never created.
    void state.blockConcurrencyWhile(async () => {
      this.#keyring = await keyringOf(environment)
      if (hasTable(state, "link")) await this.#restore()
    })
  }

  async #restore(): Promise<void> {
    const sql = durableSql(this.#state)
    const id = this.#name()
    const owner = createSessionAccess(sql, id, () => Date.now()).owner()
    const { text } = await openConfig(sql, this.#keyring, owner, id)
    this.#open(id, text).session.recover(this.#sockets.runners())
  }

  async fetch(request: Request): Promise<Response> {
    const response =
      (await handleCall(request, this.#calls())) ??
      (await handleRequest(await this.#httpApi(), request))
    return response ?? new Response("", { status: 500 })
  }

  async webSocketMessage(socket: DurableSocket, data: string | ArrayBuffer): Promise<void> {
    const { id, sender } = this.#sockets.attachmentOf(socket)
    if (typeof data !== "string" || !this.#hosted) return
    if (!sender) return this.#hosted.session.runner.receive(id, data)
    const guard =
      this.#guards.get(id) ??
      guardSocket(this.#guardPorts(), this.#hosted, id, (text) => this.#sockets.send(id, text))
    this.#guards.set(id, guard)
    await guard.receive(data, sender)
  }

  async webSocketClose(socket: DurableSocket, code: number, reason: string): Promise<void> {
    const { id, sender } = this.#sockets.attachmentOf(socket)
    this.#guards.delete(id)
    if (!sender) this.#hosted?.session.runner.closed(id)
    this.#sockets.close(id, code === 1005 || code === 1006 ? 1000 : code, reason)
    if (sender && this.#hosted) await markRead(this.#guardPorts(), this.#hosted, sender.principal)
  }

  webSocketError(socket: DurableSocket): Promise<void> {
    return this.webSocketClose(socket, 1011, "")
  }

  alarm(): void {
    this.#hosted?.session.alarm()
  }

  #guardPorts(): GuardPorts {
    const { HUB_GATEWAY_SECRET } = this.#environment
    return {
      directory: this.#directory,
      now: () => Date.now(),
      terminate: () => this.#end("ended by a client"),
      gatewayKey: async ({ id, session }) =>
        HUB_GATEWAY_SECRET ? gatewayKey(HUB_GATEWAY_SECRET, id, session.generation()) : undefined,
      gatewayUrl: ({ id }) => askGatewayUrl(this.#environment, id),
    }
  }

  /** Descendants first: a parent that has ended cannot end them any more. */
  async #end(why: string, quiet = false): Promise<void> {
    if (!this.#hosted) return
    await this.#children(this.#hosted).endAll()
    this.#hosted.session.terminate(why, { quiet })
  }

  #children(hosted: HostedSession) {
    return durableChildren(this.#environment, this.#directory, hosted)
  }

  #checkConnections(): void {
    if (!this.#hosted) return
    closeLostConnections(this.#hosted, this.#sockets.people, Date.now(), (connection) =>
      this.#sockets.close(connection, ...ACCESS_ENDED),
    )
  }

  async #provision(name: string, owner: Owner, fields: Provision): Promise<void> {
    const { session } =
      this.#hosted ?? this.#create(name, owner, fields.ancestors ?? [], fields.creator)
    await applyProvision(session, fields)
    if (fields.handle === undefined) return
    const store = storeNameOf(owner)
    const handle = [store, fields.handle, name]
    await callObject(this.#environment.SHARED_STORE, store, nothing, "setHandle", handle)
  }

  #create(
    name: string,
    owner: Owner,
    ancestors: readonly string[],
    creator: string | undefined,
  ): HostedSession {
    const hosted = this.#open(name, undefined)
    this.#state.storage.sql.exec(
      "INSERT OR IGNORE INTO meta (name, value) VALUES ('name', ?)",
      name,
    )
    hosted.access.setOwner(owner, ancestors, creator)
    return hosted
  }

  /** Calls of other objects of this deployment. */
  #calls() {
    const session = (): Session => {
      if (!this.#hosted) throw new FinalFailure("the session does not exist")
      return this.#hosted.session
    }
    return {
      exists: () => this.#hosted !== undefined,
      target: () => this.#hosted?.access.target() ?? null,
      provision: (...args: [string, Owner, Provision]) => this.#provision(...args),
      keyRevoked: (prefix: string) => {
        for (const { id, principal } of this.#sockets.people()) {
          if (principal.kind === "person" && principal.key === prefix)
            this.#sockets.close(id, ...ACCESS_ENDED)
        }
      },
      ownerAccount: (account: OwnerAccount) => this.#hosted?.session.setOwnerAccount(account),
      encryptAgain: async () => void (await this.#hosted?.session.configure({})),
      /** An effect of a shared store: only of the owner's own. */
      effect: (store: string, name: keyof EffectReceiver, ...args: readonly unknown[]) => {
        if (storeNameOf(this.#hosted?.access.owner() ?? LOCAL_OWNER) !== store)
          throw new FinalFailure("the session does not exist")
        const run: (...given: never[]) => unknown = session()[name]
        return run(...(args as never[]))
      },
      status: () => session().status(),
      search: (query: string, limit: number) => session().search(query, limit),
      recent: (limit: number) => session().recent(limit),
      channels: () => session().channels(),
      prompt: (...args: Parameters<Session["prompt"]>) => session().prompt(...args),
      note: (...args: Parameters<Session["note"]>) => session().note(...args),
      /** By the parent session, which has the same owner. */
      terminate: (owner: Owner, why: string, quiet: boolean) => {
        if (this.#hosted?.access.owner() !== owner)
          throw new FinalFailure("the session does not exist")
        return this.#end(why, quiet)
      },
      /** A report of a child, which has the same owner. */
      childReported: (store: string, ...args: Parameters<Session["childReported"]>) => {
        if (storeNameOf(this.#hosted?.access.owner() ?? LOCAL_OWNER) !== store)
          throw new FinalFailure("the session does not exist")
        session().childReported(...args)
      },
    }
  }

  /** The runtime does not tell an object its name: the request that created the session stored it. */
  #name(): string {
    const [row] = this.#state.storage.sql
      .exec("SELECT value FROM meta WHERE name = 'name'")
      .toArray()
    const value = row?.["value"]
    return typeof value === "string" ? value : ""
  }

  #open(id: string, config: string | undefined): HostedSession {
    const session = createSession(this.#ports(), config)
    const access = createSessionAccess(durableSql(this.#state), id, () => Date.now())
    return (this.#hosted = { id, session, access })
  }

  #objects(): ArtifactObjects | undefined {
    const storage = durableStorage(this.#environment)
    return storage && createArtifactObjects(storage, () => this.#hosted?.id ?? this.#name())
  }

  #ports(): Ports {
    const state = this.#state
    const hosted = (): HostedSession => {
      if (!this.#hosted) throw new Error("the session is not open")
      return this.#hosted
    }
    const later = (ms: number, run: () => void) => {
      const timer = setTimeout(run, ms)
      return () => clearTimeout(timer)
    }
    let report: ((urgent: boolean) => void) | undefined
    return {
      sql: durableSql(state),
      sockets: this.#sockets,
      blobs: this.#blobs,
      alarm: {
        set: (at) =>
          state.waitUntil(
            at === undefined ? state.storage.deleteAlarm() : state.storage.setAlarm(at),
          ),
      },
      now: () => Date.now(),
      newId: () => crypto.randomUUID(),
      digest: digestOf,
      random: Math.random,
      later,
      objects: this.#objects(),
      seal: (text) => sealConfig(this.#keyring, hosted().access.owner(), hosted().id, text),
      changed: (urgent) => {
        const { id, session, access } = hosted()
        report ??= createFactsReporter({
          directory: this.#directory,
          session: id,
          owner: access.owner,
          facts: () => ({ ...session.facts(), bytes: state.storage.sql.databaseSize }),
          account: session.setOwnerAccount,
          later,
          failed: () => {},
        })
        report(urgent)
      },
      checkConnections: () => this.#checkConnections(),
      answer: (frame) => answerRunnerRequest(this.#environment, this.#directory)(hosted(), frame),
      workflowReported: async (...result) => {
        const { session, access } = hosted()
        const store = storeNameOf(access.owner())
        await callObject(this.#environment.SHARED_STORE, store, nothing, "executed", result)
        const [execution, { status }] = result
        // The session was made for this run and has nothing else to do.
        if (session.wish()?.isForWorkflow === true && status !== "needs_approval")
          later(0, () =>
            state.waitUntil(this.#end(`The workflow run ${execution} has ended: ${status}.`)),
          )
      },
      tellFleet: hasFleet(this.#environment)
        ? (activity) => {
            const { id, access } = hosted()
            return tellFleet(this.#environment, { session: id, owner: access.owner(), activity })
          }
        : undefined,
      tellParent: (parent, childReport) =>
        callObject(this.#environment.SESSIONS, parent, nothing, "childReported", [
          storeNameOf(hosted().access.owner()),
          hosted().id,
          childReport,
        ]),
      decideExecution: (decision) =>
        callObject(
          this.#environment.SHARED_STORE,
          storeNameOf(hosted().access.owner()),
          decisionOutcome,
          "decide",
          [hosted().id, decision],
        ),
      ended: () => state.waitUntil(this.#children(hosted()).endAll()),
      chats: this.#chats.port,
      report: consoleReport(() => this.#name()),
    }
  }

  async #httpApi(): Promise<HttpApiHost> {
    const notHere = () => {
      throw new Error("this route belongs to the directory")
    }
    return {
      ...(await doorOf(this.#environment)),
      ...this.#guardPorts(),
      verifyJwt: this.#verifyJwt,
      find: () => this.#hosted,
      provision: (name, owner, fields) => this.#provision(name, owner, fields),
      liveStatus: () => undefined,
      fleet: (session, call, request) =>
        handleFleetCall(
          {
            environment: this.#environment,
            sql: durableSql(this.#state),
            session,
            find: () => this.#hosted,
            create: async (owner) => {
              if (this.#hosted) return
              await this.#directory.addSession(session, owner)
              await this.#provision(session, owner, {})
            },
            reserve: async () => {
              if (!this.#hosted) await this.#provision(session, POOL_OWNER, {})
            },
            handOver: async (owner) => {
              const hosted = this.#hosted
              if (!hosted) return `there is no session ${session}`
              const parts = { ...hosted, sql: durableSql(this.#state), keyring: this.#keyring }
              const refusal = await handOver(parts, owner)
              if (refusal === undefined) await this.#directory.addSession(session, owner)
              return refusal
            },
            end: (why) => this.#end(why),
            gatewayKey: async (generation) => {
              const { HUB_GATEWAY_SECRET: secret } = this.#environment
              return secret ? gatewayKey(secret, session, generation) : undefined
            },
          },
          call,
          request,
        ),
      artifact: async (_session, id) => {
        const mime = this.#hosted?.session.artifactType(id)
        if (mime === undefined) return undefined
        const objects = this.#objects()
        return this.#blobs.find(id) ?? (objects && { mime, body: await objects.get(id) })
      },
      hook: async () => new Response("", { status: 404 }),
      chat: async (type, request) => {
        const chat = this.#chats.find(type)
        if (!chat) return new Response("", { status: 404 })
        return receiveChat(chat, request, (_session, prompt, channel) => {
          const { session } = this.#hosted ?? {}
          if (!session || session.status().status === "ended") return "unavailable"
          session.prompt(prompt, channel, { fromChat: true })
          return "delivered"
        })
      },
      upgrade: (_request, _session, sender) => {
        const pair = new workers.WebSocketPair()
        const id = this.#sockets.accept(pair[1], sender)
        if (!sender) this.#hosted?.session.runner.opened(id)
        else if (sender.principal.expiresAt !== undefined) this.#checkConnections()
        return new Response(null, { status: 101, webSocket: pair[0] } as ResponseInit)
      },
      upgradeLobby: notHere,
      search: notHere,
      loginLink: notHere,
      stream: (_session, { principal }, begin) => {
        const { streams } = this.#sockets
        const response = eventStream(streams, crypto.randomUUID(), principal, begin)
        this.#checkConnections()
        return response
      },
      checkConnections: () => this.#checkConnections(),
      keyRevoked: notHere,
      ownerChanged: notHere,
      rotateKeys: notHere,
      listPersonas: notHere,
      putPersona: notHere,
      removePersona: notHere,
    }
  }
}

const decisionOutcome = z.discriminatedUnion("ok", [
  z.object({ ok: z.literal(true), status: z.string() }),
  z.object({ ok: z.literal(false), isUnknown: z.boolean(), message: z.string() }),
])

const objectOf = (namespace: DurableNamespace, name: string) =>
  namespace.get(namespace.idFromName(name))

/** The worker: serves the page, and forwards each other request to the object that its route names. */
export default {
  fetch: async (request: Request, environment: DurableEnvironment): Promise<Response> => {
    const page = findPageRoute(new URL(request.url).pathname) && durablePage(environment)
    const allowed = originsOf(environment)
    const preflight = preflightResponse(request, allowed)
    if (preflight) return preflight
    if (!page) return forwardOrRefuse(request, environment)
    const response = await handlePage(page, request, async (inner, protocol) =>
      withProtocol(await forwardOrRefuse(inner, environment), protocol),
    )
    return response ?? new Response("", { status: 500 })
  },
}

/** An object that cannot store anything fails with an error of its storage. */
const forwardOrRefuse = async (
  request: Request,
  environment: DurableEnvironment,
): Promise<Response> => {
  try {
    return await forward(request, environment)
  } catch (error) {
    if (!isStorageFull(error)) throw error
    return withCors(storageFullResponse(), request, originsOf(environment))
  }
}

const forward = async (request: Request, environment: DurableEnvironment): Promise<Response> => {
  const url = new URL(request.url)
  const route = routeOf(request.method, url.pathname, url.searchParams.get("role"))
  if (!route) return withCors(errorResponse(404, "no such route"), request, originsOf(environment))
  if ("session" in route) return objectOf(environment.SESSIONS, route.session).fetch(request)
  if (route.to === "health")
    return withCors(Response.json({ ok: true }), request, originsOf(environment))
  if (route.to === "chat") {
    const chat = durableChats(environment).find(route.chat)
    if (!chat) return new Response("no such route", { status: 404 })
    return objectOf(environment.SESSIONS, chat.session).fetch(request)
  }
  if (route.to === "hook")
    return objectOf(environment.SHARED_STORE, storeOfTrigger(route.trigger)).fetch(request)
  return objectOf(environment.DIRECTORY, DIRECTORY_NAME).fetch(request)
}
