/** The hub's one door over HTTP, the same in every host: who may come in, and what each address answers. */
import { parseClientMessage, type RefusalCode } from "../wire/clients/verbs.ts"
import { type Route, routeOf } from "./session/routes.ts"
import { sameText } from "../lib/constant-time.ts"
import type { Session } from "./session/session.ts"
import { hashOf } from "./keys.ts"

export interface DoorHost {
  readonly find: (session: string) => Session | undefined
  readonly create: (session: string) => Session
  readonly list: () => readonly unknown[] | Promise<readonly unknown[]>
  readonly terminate: (session: string) => Promise<void>
  readonly artifact: (
    session: string,
    id: string,
  ) => { mime: string; body: Uint8Array<ArrayBuffer> } | undefined
  readonly hook: (trigger: string, request: Request) => Promise<Response>
  /** Turns the request into a WebSocket. */
  readonly upgrade: (
    request: Request,
    session: string,
    role: "runner" | "client",
  ) => Response | undefined
  /** An answer that goes on: whatever is sent to the connection is an event of it. */
  readonly stream: (session: string, begin: (connection: string) => void) => Response
  /** Of the token that clients show. Without one, no client comes in. */
  readonly clientTokenHash: string | undefined
  /** Pages of other origins that may speak to the hub; its own always may. */
  readonly allowedOrigins: readonly string[]
}

/** `undefined` when the answer is a WebSocket that the host has taken over. */
export const enter = async (host: DoorHost, request: Request): Promise<Response | undefined> => {
  const url = new URL(request.url)
  const route = routeOf(request.method, url.pathname, url.searchParams.get("role"))
  if (!route) return refuse(404, "there is nothing here")
  if (route.access === "open") return Response.json({ ok: true })
  if (!originFits(request, url, host.allowedOrigins))
    return refuse(403, "this origin may not speak to the hub")
  const token = tokenOf(request, url)
  if (route.access === "client" && !(await isClient(host, token))) {
    return refuse(401, "a client's token is expected: Authorization: Bearer <token>")
  }
  return serve(host, route, request, url, token)
}

const serve = async (
  host: DoorHost,
  route: Route,
  request: Request,
  url: URL,
  token: string,
): Promise<Response | undefined> => {
  switch (route.to) {
    case "health":
      return Response.json({ ok: true })
    case "list":
      return Response.json({ sessions: await host.list() })
    case "hook":
      return host.hook(route.trigger, request)
    case "create":
      return create(host, route.session, request)
    default:
      break
  }
  const session = host.find(route.session)
  if (!session) return refuse(404, `there is no session ${route.session}`)
  switch (route.to) {
    case "socket": {
      if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
        return refuse(426, "a WebSocket is expected here")
      }
      const status = route.access === "runner" ? session.refusal(await hashOf(token)) : undefined
      if (status !== undefined) return refuse(status, refusals[status])
      return host.upgrade(request, route.session, route.access)
    }
    case "snapshot":
      return Response.json(session.snapshot())
    case "events":
      return events(host, session, route.session, url, request)
    case "terminate":
      await host.terminate(route.session)
      return Response.json({ ok: true })
    case "artifact": {
      const found = host.artifact(route.session, route.artifact)
      if (!found) return refuse(404, "there is no such artifact")
      // Whatever a sandbox calls an image must never run as a page of the hub's origin.
      return new Response(found.body, {
        headers: {
          "content-type": /^image\/(png|jpeg|gif|webp)$/.test(found.mime)
            ? found.mime
            : "application/octet-stream",
          "x-content-type-options": "nosniff",
          "content-security-policy": "sandbox; default-src 'none'",
        },
      })
    }
    case "verb":
      return verb(session, route.verb, request)
  }
}

const refusals = {
  401: "wrong token",
  410: "the session has ended",
  503: "the session has no token yet",
} as const

const events = (host: DoorHost, session: Session, name: string, url: URL, request: Request) => {
  const given = request.headers.get("last-event-id") ?? url.searchParams.get("cursor")
  if (given !== null && !/^\d{1,15}$/.test(given)) return refuse(400, "cursor: expected a number")
  const cursor = given === null ? undefined : Number(given)
  return host.stream(name, (connection) => session.clients.subscribe(connection, cursor))
}

const verb = async (session: Session, name: string, request: Request): Promise<Response> => {
  const body = await bodyOf(request)
  if (body === undefined) return refuse(400, "the body must be a JSON object of at most 4 MB")
  const parsed = parseClientMessage({ ...body, type: name })
  if (!parsed.ok || parsed.message.type === "subscribe") {
    return refuse(400, parsed.ok ? "subscribe is for WebSockets: use GET events" : parsed.problem)
  }
  const reply = session.clients.request(parsed.message, "http")
  return Response.json(reply, { status: reply.ok ? 200 : statuses[reply.error.code] })
}

const statuses: Readonly<Record<RefusalCode, number>> = {
  "bad-request": 400,
  "not-found": 404,
  "too-late": 409,
  conflict: 409,
  "no-runner": 503,
  "too-many": 429,
}

const create = async (host: DoorHost, name: string, request: Request): Promise<Response> => {
  const body = await bodyOf(request)
  const { runnerToken, title, config } = body ?? {}
  if (
    !body ||
    (runnerToken !== undefined && (typeof runnerToken !== "string" || runnerToken.length < 16))
  ) {
    return refuse(400, "runnerToken: expected at least 16 characters")
  }
  const settings = parseClientMessage({ type: "config", config: config ?? {} })
  if (!settings.ok) return refuse(400, settings.problem)
  if (JSON.stringify(config ?? {}).length > MAX_CONFIG) {
    return refuse(400, `config: at most ${MAX_CONFIG} characters are kept`)
  }
  const session = host.create(name)
  if (typeof title === "string") session.setTitle(title)
  if (settings.message.type === "config") session.configure(settings.message.config)
  if (typeof runnerToken === "string") session.setRunnerToken(await hashOf(runnerToken))
  return Response.json({ ok: true, session: name }, { status: 201 })
}

const MAX_BODY = 4 * 1024 * 1024
const MAX_CONFIG = 500_000

const bodyOf = async (request: Request): Promise<Record<string, unknown> | undefined> => {
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY) return undefined
  const text = await request.text()
  if (text.length > MAX_BODY) return undefined
  if (text === "") return {}
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

const refuse = (status: number, message: string): Response =>
  Response.json({ ok: false, error: { code: `http-${status}`, message } }, { status })

/** The header first: an address ends up in logs. A browser's WebSocket and EventSource can only use the address. */
const tokenOf = (request: Request, url: URL): string =>
  /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ??
  url.searchParams.get("token") ??
  ""

const isClient = async ({ clientTokenHash }: DoorHost, token: string): Promise<boolean> =>
  clientTokenHash !== undefined && sameText(await hashOf(token), clientTokenHash)

/** A page elsewhere must not use a browser that happens to know the token; programs send no origin. */
const originFits = (request: Request, url: URL, allowed: readonly string[]): boolean => {
  const origin = request.headers.get("origin")
  return origin === null || origin === url.origin || allowed.includes(origin)
}
