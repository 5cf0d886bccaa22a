/** The session agent as a Durable Object: the same core and the same door, on the Workers runtime. One object a session. */
import { eventStream } from "../../connections.ts"
import { type DurableBlobs, durableBlobs } from "./blobs.ts"
import { callObject, takeCall } from "./object-calls.ts"
import { digestOf } from "../../../lib/digest.ts"
import { durableAnswer } from "./runner-requests.ts"
import type { Ports } from "../../session/ports.ts"
import { routeOf } from "../../session/routes.ts"
import { createSession, type Session } from "../../session/session.ts"
import { type DoorHost, enter } from "../../http-api.ts"
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
import { Refusal } from "../../handlers/handler-table.ts"

export { Commons } from "./shared-store-object.ts"

const workers = globalThis as unknown as WorkersGlobals

export class SessionAgent {
  readonly #state: DurableState
  readonly #environment: DurableEnvironment
  readonly #sockets: DurableSockets
  readonly #blobs: DurableBlobs
  #session: Session | undefined

  constructor(state: DurableState, environment: DurableEnvironment) {
    this.#state = state
    this.#environment = environment
    this.#sockets = durableSockets(state)
    this.#blobs = durableBlobs(state)
    // A ping is answered without waking the object.
    state.setWebSocketAutoResponse(
      new workers.WebSocketRequestResponsePair('{"type":"ping"}', '{"type":"pong"}'),
    )
    // Whoever asks for a session that nobody made finds no tables here, and leaves none behind.
    if (hasTable(state, "link")) this.#open().woke(this.#sockets.runners())
  }

  async fetch(request: Request): Promise<Response> {
    const answer =
      (await takeCall(request, this.#calls())) ?? (await enter(await this.#door(), request))
    return answer ?? new Response("", { status: 500 })
  }

  webSocketMessage(socket: DurableSocket, data: string | ArrayBuffer): void {
    const { id, role } = this.#sockets.who(socket)
    const side = role === "runner" ? this.#session?.runner : this.#session?.clients
    if (typeof data === "string") side?.said(id, data)
  }

  webSocketClose(socket: DurableSocket, code: number, reason: string): void {
    const { id, role } = this.#sockets.who(socket)
    if (role === "runner") this.#session?.runner.closed(id)
    this.#sockets.close(id, code === 1005 || code === 1006 ? 1000 : code, reason)
  }

  webSocketError(socket: DurableSocket): void {
    this.webSocketClose(socket, 1011, "")
  }

  alarm(): void {
    this.#session?.alarm()
  }

  /** What other objects of this deployment may ask of this one. */
  #calls() {
    const session = (): Session => {
      if (!this.#session) throw new Refusal("there is no such session")
      return this.#session
    }
    return {
      exists: () => this.#session !== undefined,
      status: () => session().status(),
      recent: (limit: number) => session().recent(limit),
      channels: () => session().channels(),
      prompt: (...asked: Parameters<Session["prompt"]>) => session().prompt(...asked),
      note: (...noted: Parameters<Session["note"]>) => session().note(...noted),
      order: (...ordered: Parameters<Session["order"]>) => session().order(...ordered),
      cancel: (...cancelled: Parameters<Session["cancel"]>) => session().cancel(...cancelled),
    }
  }

  /** Its own name is not told to an object: it keeps it with the first request that made it. */
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
      chance: Math.random,
      later: (ms, run) => {
        const timer = setTimeout(run, ms)
        return () => clearTimeout(timer)
      },
      answer: (frame) => durableAnswer(this.#environment)(this.#name(), frame),
      executed: (id, envelope) => this.#tell("executed", id, envelope),
      ended: () => {},
      report: () => {},
    }
  }

  #tell(name: string, ...args: readonly unknown[]): void {
    this.#state.waitUntil(callObject(this.#environment.COMMONS, "", name, args))
  }

  async #door(): Promise<DoorHost> {
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
        this.#tell("made", name)
        return session
      },
      list: async () => {
        const names = await callObject<string[]>(this.#environment.COMMONS, "", "names", [])
        return names.map((id) => ({ id }))
      },
      terminate: async () => this.#session?.terminate("a client ended it"),
      artifact: (_session, id) => this.#blobs.find(id),
      hook: async () => new Response("", { status: 404 }),
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

const objectOf = (namespace: DurableNamespace, name: string) =>
  namespace.get(namespace.idFromName(name))

/** The worker before the objects: finds the one an address means. */
export default {
  fetch: async (request: Request, environment: DurableEnvironment): Promise<Response> => {
    const url = new URL(request.url)
    const route = routeOf(request.method, url.pathname, url.searchParams.get("role"))
    if (!route) return new Response("there is nothing here", { status: 404 })
    if ("session" in route) return objectOf(environment.SESSIONS, route.session).fetch(request)
    if (route.to === "health") return Response.json({ ok: true })
    // The list is behind the clients' token, which a session's door asks for; hooks have secrets of their own.
    const object = route.to === "hook" ? environment.COMMONS : environment.SESSIONS
    return objectOf(object, "").fetch(request)
  },
}
