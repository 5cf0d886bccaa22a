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
import { answerRunnerRequest } from "./runner-requests.ts"
import type { Ports } from "../../session/ports.ts"
import { routeOf } from "../../session/routes.ts"
import { createSession, type Session } from "../../session/session.ts"
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
import { hashOf } from "../../keys.ts"
import { FinalFailure } from "../../session/final-failure.ts"

export { SharedStore } from "./shared-store-object.ts"

const workers = globalThis as unknown as WorkersGlobals

export class SessionAgent {
  readonly #state: DurableState
  readonly #environment: DurableEnvironment
  readonly #sockets: DurableSockets
  readonly #blobs: DurableBlobs
  readonly #chats: ConfiguredChats
  #session: Session | undefined

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#state = state
    this.#environment = environment
    this.#chats = durableChats(environment)
    this.#sockets = durableSockets(state)
    this.#blobs = durableBlobs(state)
    // The runtime answers a ping without waking the object.
    state.setWebSocketAutoResponse(
      new workers.WebSocketRequestResponsePair('{"type":"ping"}', '{"type":"pong"}'),
    )
    // An object exists as soon as its name is used: without tables its session was never created.
    if (hasTable(state, "link")) this.#open().recover(this.#sockets.runners())
  }

  async fetch(request: Request): Promise<Response> {
    const response =
      (await handleCall(request, this.#calls())) ??
      (await handleRequest(await this.#httpApi(), request))
    return response ?? new Response("", { status: 500 })
  }

  webSocketMessage(socket: DurableSocket, data: string | ArrayBuffer): void {
    const { id, role } = this.#sockets.attachmentOf(socket)
    const side = role === "runner" ? this.#session?.runner : this.#session?.clients
    if (typeof data === "string") side?.receive(id, data)
  }

  webSocketClose(socket: DurableSocket, code: number, reason: string): void {
    const { id, role } = this.#sockets.attachmentOf(socket)
    if (role === "runner") this.#session?.runner.closed(id)
    this.#sockets.close(id, code === 1005 || code === 1006 ? 1000 : code, reason)
  }

  webSocketError(socket: DurableSocket): void {
    this.webSocketClose(socket, 1011, "")
  }

  alarm(): void {
    this.#session?.alarm()
  }

  /** Calls of other objects of this deployment. */
  #calls() {
    const session = (): Session => {
      if (!this.#session) throw new FinalFailure("the session does not exist")
      return this.#session
    }
    return {
      exists: () => this.#session !== undefined,
      status: () => session().status(),
      recent: (limit: number) => session().recent(limit),
      channels: () => session().channels(),
      prompt: (...args: Parameters<Session["prompt"]>) => session().prompt(...args),
      note: (...args: Parameters<Session["note"]>) => session().note(...args),
      orderWorkflow: (...args: Parameters<Session["orderWorkflow"]>) =>
        session().orderWorkflow(...args),
      cancelWorkflow: (...args: Parameters<Session["cancelWorkflow"]>) =>
        session().cancelWorkflow(...args),
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

  #open(): Session {
    return (this.#session ??= createSession(this.#ports()))
  }

  #ports(): Ports {
    const state = this.#state
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
      later: (ms, run) => {
        const timer = setTimeout(run, ms)
        return () => clearTimeout(timer)
      },
      answer: (frame) => answerRunnerRequest(this.#environment)(this.#name(), frame),
      workflowReported: (id, envelope) => this.#callStore("executed", id, envelope),
      decideExecution: (decision) =>
        callObject(this.#environment.SHARED_STORE, "", decisionOutcome, "decide", [
          this.#name(),
          decision,
        ]),
      ended: () => {},
      chats: this.#chats.port,
      report: consoleReport(() => this.#name()),
    }
  }

  #callStore(name: string, ...args: readonly unknown[]): void {
    this.#state.waitUntil(callObject(this.#environment.SHARED_STORE, "", nothing, name, args))
  }

  async #httpApi(): Promise<HttpApiHost> {
    const { CLIENT_TOKEN, ALLOWED_ORIGINS } = this.#environment
    return {
      clientTokenHash: CLIENT_TOKEN ? await hashOf(CLIENT_TOKEN) : undefined,
      allowedOrigins: ALLOWED_ORIGINS?.split(",").map((origin) => origin.trim()) ?? [],
      find: () => this.#session,
      create: (name) => {
        const session = this.#open()
        this.#state.storage.sql.exec(
          "INSERT OR IGNORE INTO meta (name, value) VALUES ('name', ?)",
          name,
        )
        this.#callStore("created", name)
        return session
      },
      list: async () => {
        const names = await callObject(
          this.#environment.SHARED_STORE,
          "",
          z.array(z.string()),
          "names",
          [],
        )
        return names.map((id) => ({ id }))
      },
      terminate: async () => this.#session?.terminate("ended by a client"),
      artifact: (_session, id) => this.#blobs.find(id),
      hook: async () => new Response("", { status: 404 }),
      chat: async (type, request) => {
        const chat = this.#chats.find(type)
        if (!chat) return new Response("", { status: 404 })
        return receiveChat(chat, request, (_session, prompt, channel) => {
          if (!this.#session || this.#session.status().status === "ended") return "unavailable"
          this.#session.prompt(prompt, channel)
          return "delivered"
        })
      },
      upgrade: (_request, _session, role) => {
        const pair = new workers.WebSocketPair()
        const id = this.#sockets.accept(pair[1], role)
        if (role === "runner") this.#session?.runner.opened(id)
        return new Response(null, { status: 101, webSocket: pair[0] } as ResponseInit)
      },
      stream: (_session, begin) => eventStream(this.#sockets.streams, crypto.randomUUID(), begin),
    }
  }
}

const decisionOutcome = z.discriminatedUnion("ok", [
  z.object({ ok: z.literal(true), status: z.string() }),
  z.object({ ok: z.literal(false), isUnknown: z.boolean(), message: z.string() }),
])

const objectOf = (namespace: DurableNamespace, name: string) =>
  namespace.get(namespace.idFromName(name))

/** The worker: forwards each request to the object that its route names. */
export default {
  fetch: async (request: Request, environment: DurableEnvironment): Promise<Response> => {
    const url = new URL(request.url)
    const route = routeOf(request.method, url.pathname, url.searchParams.get("role"))
    if (!route) return new Response("no such route", { status: 404 })
    if ("session" in route) return objectOf(environment.SESSIONS, route.session).fetch(request)
    if (route.to === "health") return Response.json({ ok: true })
    if (route.to === "chat") {
      const chat = durableChats(environment).find(route.chat)
      if (!chat) return new Response("no such route", { status: 404 })
      return objectOf(environment.SESSIONS, chat.session).fetch(request)
    }
    // The list needs the clients' token, which a session's HTTP API checks; a hook has a secret of its own.
    const object = route.to === "hook" ? environment.SHARED_STORE : environment.SESSIONS
    return objectOf(object, "").fetch(request)
  },
}
