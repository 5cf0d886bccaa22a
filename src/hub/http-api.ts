/** The hub's HTTP API, the same in every host: authentication, then one handler per route. */
import { z } from "zod"
import { parseClientMessage, type RefusalCode } from "../wire/clients/verbs.ts"
import { type Route, routeOf } from "./session/routes.ts"
import { sameText } from "../lib/constant-time.ts"
import { parseLimitedJson } from "../wire/json-limits.ts"
import type { Session } from "./session/session.ts"
import { preflightResponse, withCors } from "./cors.ts"
import { hashOf } from "./keys.ts"

export interface HttpApiHost {
  readonly find: (session: string) => Session | undefined
  readonly create: (session: string) => Session
  readonly list: () => readonly unknown[] | Promise<readonly unknown[]>
  readonly terminate: (session: string) => Promise<void>
  readonly artifact: (
    session: string,
    id: string,
  ) => { mime: string; body: Uint8Array<ArrayBuffer> } | undefined
  readonly hook: (trigger: string, request: Request) => Promise<Response>
  /** A webhook call of a chat service; 404 when the service is not configured. */
  readonly chat: (chat: string, request: Request) => Promise<Response>
  /** Turns the request into a WebSocket. */
  readonly upgrade: (
    request: Request,
    session: string,
    role: "runner" | "client",
  ) => Response | undefined
  /** A response of server-sent events: everything sent to the new connection is an event. */
  readonly stream: (session: string, begin: (connection: string) => void) => Response
  /** Hash of the clients' token. `undefined` refuses every client. */
  readonly clientTokenHash: string | undefined
  /** Origins of web pages that may call the hub, besides its own. */
  readonly allowedOrigins: readonly string[]
}

/** `undefined` when the host has turned the request into a WebSocket. */
export const handleRequest = async (
  host: HttpApiHost,
  request: Request,
): Promise<Response | undefined> => {
  const preflight = preflightResponse(request, host.allowedOrigins)
  if (preflight) return preflight
  const response = await answerRequest(host, request)
  return response && withCors(response, request, host.allowedOrigins)
}

const answerRequest = async (
  host: HttpApiHost,
  request: Request,
): Promise<Response | undefined> => {
  const url = new URL(request.url)
  const route = routeOf(request.method, url.pathname, url.searchParams.get("role"))
  if (!route) return errorResponse(404, "no such route")
  if (route.access === "open") return Response.json({ ok: true })
  if (!isAllowedOrigin(request, url, host.allowedOrigins))
    return errorResponse(403, "web pages of this origin may not call the hub")
  const token = tokenOf(request, url)
  if (route.access === "client" && !(await isClient(host, token))) {
    return errorResponse(401, "wrong or missing token: send Authorization: Bearer <token>")
  }
  return handleRoute(host, route, request, url, token)
}

const handleRoute = async (
  host: HttpApiHost,
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
    case "chat":
      return host.chat(route.chat, request)
    case "create":
      return createSession(host, route.session, request)
    default:
      break
  }
  const session = host.find(route.session)
  if (!session) return errorResponse(404, `session ${route.session} does not exist`)
  switch (route.to) {
    case "socket": {
      if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
        return errorResponse(426, "this route is a WebSocket")
      }
      const status =
        route.access === "runner" ? session.refuseRunner(await hashOf(token)) : undefined
      if (status !== undefined) return errorResponse(status, runnerRefusals[status])
      return host.upgrade(request, route.session, route.access)
    }
    case "snapshot":
      return Response.json(session.snapshot())
    case "events":
      return streamEvents(host, session, route.session, url, request)
    case "terminate":
      await host.terminate(route.session)
      return Response.json({ ok: true })
    case "artifact":
      return sendArtifact(host, route.session, route.artifact)
    case "verb":
      return runVerb(session, route.verb, request)
  }
}

const runnerRefusals = {
  401: "wrong token",
  410: "the session has ended",
  503: "the session has no runner token yet: try again later",
} as const

const sendArtifact = (host: HttpApiHost, session: string, id: string): Response => {
  const found = host.artifact(session, id)
  if (!found) return errorResponse(404, `artifact ${id} does not exist`)
  // The sandbox chose the type: content that is not an image must never run as a page of the hub's origin.
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

const streamEvents = (
  host: HttpApiHost,
  session: Session,
  id: string,
  url: URL,
  request: Request,
): Response => {
  const given = request.headers.get("last-event-id") ?? url.searchParams.get("cursor")
  if (given !== null && !/^\d{1,15}$/.test(given))
    return errorResponse(400, "cursor: expected a number")
  const cursor = given === null ? undefined : Number(given)
  return host.stream(id, (connection) => session.clients.subscribe(connection, cursor))
}

const runVerb = async (session: Session, name: string, request: Request): Promise<Response> => {
  const body = await readBody(request)
  if (body === undefined)
    return errorResponse(400, "the body must be a JSON object of at most 4 MB")
  const parsed = parseClientMessage({ ...body, type: name })
  if (!parsed.ok) return errorResponse(400, parsed.problem)
  if (parsed.message.type === "subscribe")
    return errorResponse(400, "subscribe works on a WebSocket only: use GET events")
  const reply =
    parsed.message.type === "approve-execution"
      ? await session.clients.approve(parsed.message)
      : session.clients.request(parsed.message, "http")
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

const createSession = async (
  host: HttpApiHost,
  id: string,
  request: Request,
): Promise<Response> => {
  const body = await readBody(request)
  const { runnerToken, title, config } = body ?? {}
  if (
    !body ||
    (runnerToken !== undefined && (typeof runnerToken !== "string" || runnerToken.length < 16))
  ) {
    return errorResponse(400, "runnerToken: expected at least 16 characters")
  }
  const settings = parseClientMessage({ type: "config", config: config ?? {} })
  if (!settings.ok) return errorResponse(400, settings.problem)
  if (JSON.stringify(config ?? {}).length > MAX_CONFIG) {
    return errorResponse(400, `config: at most ${MAX_CONFIG} characters can be stored`)
  }
  const session = host.create(id)
  if (typeof title === "string") session.setTitle(title)
  if (settings.message.type === "config") session.configure(settings.message.config)
  if (typeof runnerToken === "string") session.setRunnerToken(await hashOf(runnerToken))
  return Response.json({ ok: true, session: id }, { status: 201 })
}

const MAX_BODY = 4 * 1024 * 1024
const MAX_CONFIG = 500_000

const jsonObject = z.record(z.string(), z.unknown())

const readBody = async (request: Request): Promise<Record<string, unknown> | undefined> => {
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY) return undefined
  const text = await request.text()
  if (text.length > MAX_BODY) return undefined
  return text === "" ? {} : jsonObject.safeParse(parseLimitedJson(text)).data
}

const errorResponse = (status: number, message: string): Response =>
  Response.json({ ok: false, error: { code: `http-${status}`, message } }, { status })

/** The header comes first, because URLs end up in logs. A browser's WebSocket and EventSource can only use the URL. */
const tokenOf = (request: Request, url: URL): string =>
  /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ??
  url.searchParams.get("token") ??
  ""

const isClient = async ({ clientTokenHash }: HttpApiHost, token: string): Promise<boolean> =>
  clientTokenHash !== undefined && sameText(await hashOf(token), clientTokenHash)

/** Keeps other websites from using the token of a browser. Programs send no origin. */
const isAllowedOrigin = (request: Request, url: URL, allowed: readonly string[]): boolean => {
  const origin = request.headers.get("origin")
  return origin === null || origin === url.origin || allowed.includes(origin)
}
