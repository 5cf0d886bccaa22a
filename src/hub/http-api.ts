/** The hub's HTTP API, the same in every host: authentication, the access table, then one handler per route. */
import { authenticate, type Authentication } from "./access/authenticate.ts"
import type { OwnerAccount } from "./access/directory.ts"
import {
  type GuardPorts,
  handleVerb,
  type HostedSession,
  markRead,
  type Sender,
} from "./access/guarded-clients.ts"
import { actionOfRoute, decide } from "./access/may.ts"
import {
  HOOK_REFUSALS,
  limitAuthentication,
  limitResponse,
  refusedAuthentication,
  type WrongSecrets,
} from "./access/wrong-secrets.ts"
import { LOCAL_OWNER, type Owner } from "./access/ownership.ts"
import { isAudited } from "./access/table.ts"
import type { JwtVerifier } from "./access/verify-jwt.ts"
import type { LiveStatus } from "../wire/clients/lobby.ts"
import { parseClientMessage, type RefusalCode } from "../wire/clients/verbs.ts"
import { errorResponse, isUpgrade, notUpgrade, readBody, replyResponse } from "./http-responses.ts"
import { preflightResponse, withCors } from "./cors.ts"
import { hashOf } from "./keys.ts"
import { handleOwnerRoute } from "./owner-routes.ts"
import type { PersonaHost } from "./persona-routes.ts"
import type { LocalSessions } from "./local-sessions-port.ts"
import { createNamed, type Provision, updateSession, type WarmSessions } from "./provision.ts"
import type { SearchResult } from "./session/search.ts"
import { type Route, routeOf } from "./session/routes.ts"
import { handleSharingRoute, isSharingRoute } from "./sharing-routes.ts"

export interface StoredFile {
  readonly mime: string
  readonly body: Uint8Array<ArrayBuffer>
}

export interface HttpApiHost extends GuardPorts, PersonaHost {
  readonly find: (session: string) => HostedSession | undefined
  /** Makes the session if it does not exist, and sets what is given. Its id is in the directory already. */
  readonly provision: (session: string, owner: Owner, fields: Provision) => Promise<void>
  /** Sessions whose sandboxes run already; absent on a host without a fleet in its process. */
  readonly warmSessions?: WarmSessions | undefined
  /** True if a session that is created here gets a sandbox with its first prompt. */
  readonly startsSandboxes?: boolean | undefined
  /** Sessions in a directory of the hub's own machine; absent where it starts none. */
  readonly localSessions?: LocalSessions | undefined
  /** What the list shows besides the index, where the host has the session in memory. */
  readonly liveStatus: (session: string) => LiveStatus | undefined
  /** Rejects if the file is in object storage, which does not answer. */
  readonly artifact: (session: string, id: string) => Promise<StoredFile | undefined>
  readonly hook: (trigger: string, request: Request) => Promise<Response>
  /** A webhook call of a chat service; 404 when the service is not configured. */
  readonly chat: (chat: string, request: Request) => Promise<Response>
  /** A call of the fleet about a session; absent on a host without a fleet in another process. */
  readonly fleet?: (session: string, call: string, request: Request) => Promise<Response>
  /** Turns the request into a WebSocket. A runner has no sender: its token is checked by the session. */
  readonly upgrade: (
    request: Request,
    session: string,
    sender: Sender | undefined,
  ) => Response | undefined
  /** Searches the text of one session; `undefined` when it cannot be reached. */
  readonly search: (
    session: string,
    query: string,
    limit: number,
  ) => Promise<SearchResult | undefined>
  /** A link that logs a browser in to the page, once; `undefined` when this host serves no page. */
  readonly loginLink: (
    url: URL,
  ) => Promise<{ readonly url: string; readonly expiresAt: number } | undefined>
  /** Turns the request into a WebSocket of the lobby. */
  readonly upgradeLobby: (request: Request, sender: Sender) => Response | undefined
  /** A response of server-sent events: everything sent to the new connection is an event. */
  readonly stream: (
    session: string,
    sender: Sender,
    begin: (connection: string) => void,
  ) => Response
  /** Closes the connections of a session that may not read it any more. */
  readonly checkConnections: (session: string) => void
  /** Closes the connections that were opened with this API key and revokes the share links made with it, in every session. */
  readonly keyRevoked: (owner: Owner, prefix: string) => Promise<void>
  /** The budget of an owner was changed: its running sessions check theirs. */
  readonly ownerChanged: (owner: Owner, account: OwnerAccount) => Promise<void>
  /** Encrypts every stored config with the first encryption key; returns how many sessions there are. */
  readonly rotateKeys: () => Promise<number>
  /** Hash of the operator's token. `undefined`: there is no operator. */
  readonly clientTokenHash: string | undefined
  readonly verifyJwt: JwtVerifier | undefined
  readonly wrongSecrets: WrongSecrets
  /** The network address of the caller. */
  readonly from: (request: Request) => string | undefined
  /** Origins of web pages that may call the hub, besides its own. */
  readonly allowedOrigins: readonly string[]
}

type SessionRoute = Exclude<Extract<Route, { readonly session: string }>, { readonly to: "fleet" }>

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
  if (route.to === "health") return Response.json({ ok: true })
  if (!isAllowedOrigin(request, url, host.allowedOrigins))
    return errorResponse(403, "web pages of this origin may not call the hub")
  const from = host.from(request)
  // A guess of a trigger's id is a wrong secret, too.
  if (route.to === "hook")
    return limitResponse(
      host.wrongSecrets,
      from,
      await host.hook(route.trigger, request),
      HOOK_REFUSALS,
    )
  if (route.to === "chat")
    return limitResponse(host.wrongSecrets, from, await host.chat(route.chat, request))
  if (route.to === "fleet")
    return host.fleet?.(route.session, route.call, request) ?? errorResponse(404, "no such route")
  const token = tokenOf(request, url)
  if (route.to === "socket" && route.role === "runner") {
    return openRunnerSocket(host, route.session, request, token)
  }
  const session = "session" in route ? route.session : undefined
  const authentication = await authenticateAt(host, token, session, from)
  if (!authentication.ok) return refusedAuthentication(authentication)
  const sender = { principal: authentication.principal, from }
  return "session" in route
    ? handleSessionRoute(host, route, request, url, sender)
    : handleOwnerRoute(host, route, request, url, sender)
}

const authenticateAt = async (
  host: HttpApiHost,
  token: string,
  session: string | undefined,
  from: string | undefined,
): Promise<Authentication> =>
  limitAuthentication(
    host.wrongSecrets,
    from,
    token,
    await authenticate(
      {
        clientTokenHash: host.clientTokenHash,
        verifyJwt: host.verifyJwt,
        apiKeys: { verify: async (key) => (await host.directory.verifyKey(key)) ?? undefined },
        shareLinks: {
          verify: async (id, link) => host.find(id)?.access.shareLinks.verify(id, link),
        },
      },
      token,
      session,
    ),
  )

/** Who sends a request with a token in its header. Share links are for one session and not accepted. */
export const authenticateRequest = (host: HttpApiHost, request: Request): Promise<Authentication> =>
  authenticateAt(host, bearerOf(request) ?? "", undefined, host.from(request))

/** The same for a session that does not exist and for one that the caller may not know of. */
const missing = (session: string): Response =>
  errorResponse(404, `session ${session} does not exist`)

const handleSessionRoute = async (
  host: HttpApiHost,
  route: SessionRoute,
  request: Request,
  url: URL,
  sender: Sender,
): Promise<Response | undefined> => {
  const { principal, from } = sender
  const hosted = host.find(route.session)
  if (!hosted) {
    if (route.to !== "put" || !decide(principal, "route:create-named", LOCAL_TARGET).ok)
      return missing(route.session)
    return createNamed(host, route.session, request, sender)
  }
  const target = hosted.access.target()
  // A verb that does not exist is a bad request of a caller that can see the session.
  const action = actionOfRoute(route, true) ?? "verb:subscribe"
  const decision = decide(principal, action, target)
  if (!decision.ok) {
    if (decision.status === 404) return missing(route.session)
    return route.to === "verb" && decision.status === 403
      ? refusedVerb("forbidden", decision.message)
      : errorResponse(decision.status, decision.message)
  }
  if (route.to === "verb") return runVerb(host, hosted, route.verb, request, sender)
  if (isAudited(action)) {
    const { owner } = target
    await host.directory.appendAudit({ owner, principal, action, session: route.session, from })
  }
  if (isSharingRoute(route)) return handleSharingRoute(host, hosted, route, request, sender)
  switch (route.to) {
    case "put":
      return updateSession(host, hosted, request, sender)
    case "socket":
      return isUpgrade(request) ? host.upgrade(request, route.session, sender) : notUpgrade()
    case "snapshot": {
      const snapshot = hosted.session.snapshot(channelOf(url))
      await markRead(host, hosted, principal)
      return Response.json(snapshot)
    }
    case "events":
      return streamEvents(host, hosted, url, request, sender)
    case "terminate":
      await host.terminate(route.session)
      return Response.json({ ok: true })
    case "artifact":
      return sendArtifact(host, route.session, route.artifact)
  }
}

const LOCAL_TARGET = { owner: LOCAL_OWNER }

const openRunnerSocket = async (
  host: HttpApiHost,
  id: string,
  request: Request,
  token: string,
): Promise<Response | undefined> => {
  if (!isUpgrade(request)) return notUpgrade()
  const hosted = host.find(id)
  const hash = await hashOf(token)
  // A session that does not exist is answered like a wrong token: its id must not be confirmed.
  const status = hosted ? hosted.session.refuseRunner(hash) : 401
  if (status !== undefined)
    return limitResponse(
      host.wrongSecrets,
      host.from(request),
      errorResponse(status, runnerRefusals[status]),
    )
  return host.upgrade(request, id, undefined)
}

const runnerRefusals = {
  401: "no session with this id has this runner token",
  410: "the session has ended",
  503: "the session has no runner token yet: try again later",
} as const

const RETRY_SECONDS = 5

const sendArtifact = async (host: HttpApiHost, session: string, id: string): Promise<Response> => {
  const found = await host.artifact(session, id).catch(() => "unavailable" as const)
  if (found === "unavailable")
    return errorResponse(503, "the object storage does not answer: try again", RETRY_SECONDS)
  if (!found) return errorResponse(404, `artifact ${id} does not exist`)
  // The sandbox chose the type: content that is not an image must never run as a page of the hub's origin.
  const isImage = /^image\/(png|jpeg|gif|webp)$/.test(found.mime)
  return new Response(found.body, {
    headers: {
      "content-type": isImage ? found.mime : "application/octet-stream",
      ...(!isImage && { "content-disposition": "attachment" }),
      // The id names the content for good; only the person who may read it may keep a copy.
      "cache-control": "private, max-age=31536000, immutable",
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox; default-src 'none'",
    },
  })
}

const refusedVerb = (code: RefusalCode, message: string): Response =>
  replyResponse({ ok: false, error: { code, message } })

const channelOf = (url: URL): string | undefined => url.searchParams.get("channel") ?? undefined

const streamEvents = async (
  host: HttpApiHost,
  hosted: HostedSession,
  url: URL,
  request: Request,
  sender: Sender,
): Promise<Response> => {
  const given = request.headers.get("last-event-id") ?? url.searchParams.get("cursor")
  if (given !== null && !/^\d{1,15}$/.test(given))
    return errorResponse(400, "cursor: expected a number")
  const cursor = given === null ? undefined : Number(given)
  await markRead(host, hosted, sender.principal)
  return host.stream(hosted.id, sender, (connection) =>
    hosted.session.clients.subscribe(connection, { cursor, channel: channelOf(url) }),
  )
}

const runVerb = async (
  host: HttpApiHost,
  hosted: HostedSession,
  name: string,
  request: Request,
  sender: Sender,
): Promise<Response> => {
  const body = await readBody(request)
  if (body instanceof Response) return body
  const parsed = parseClientMessage({ ...body, type: name })
  if (!parsed.ok) return refusedVerb("bad-request", parsed.problem)
  if (parsed.message.type === "subscribe")
    return refusedVerb("bad-request", "subscribe works on a WebSocket only: use GET events")
  return replyResponse(await handleVerb(host, hosted, parsed.message, sender))
}

/** The header comes first, because URLs end up in logs. A browser's WebSocket and EventSource can only use the URL. */
const tokenOf = (request: Request, url: URL): string =>
  bearerOf(request) ?? url.searchParams.get("token") ?? ""

const bearerOf = (request: Request): string | undefined =>
  /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1]

/** Keeps other websites from using the token of a browser. Programs send no origin. */
const isAllowedOrigin = (request: Request, url: URL, allowed: readonly string[]): boolean => {
  const origin = request.headers.get("origin")
  return origin === null || origin === url.origin || allowed.includes(origin)
}
