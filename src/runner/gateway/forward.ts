/** Forwards admitted requests: to the services and tunnels of the sandbox, to OpenCode, and to the server of `/v1`. */
import type { Clock } from "../../lib/clock.ts"
import { pathOf, type Tunnel } from "../sandbox/tunnels.ts"
import type { V1Address } from "../sandbox/v1/supervisor.ts"
import { type Auth, cookieOf, type PersonGrant } from "./auth.ts"
import { errorResponse } from "./error-response.ts"
import type { RequestHead } from "./http/head.ts"
import { isAgentContent, originOfTunnel } from "./http/isolation.ts"
import { hasBody, hasOpenCodePassword } from "./http/opencode-password.ts"
import { hasBasicAuthorization, isLocal, isPage, schemeOf } from "./http/request-info.ts"
import type { HttpResponse } from "./http/response.ts"
import { type Target, withoutQuery } from "./http/target.ts"
import { backendDown, message, notFound, refusal } from "./pages.ts"
import type { Backend } from "./proxy/backends.ts"
import { forwardRequest } from "./proxy/http.ts"
import { asksForWebSocket, isOriginAllowed } from "./proxy/ws.ts"
import type { Dialer } from "./tcp/backend-connections.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"

export interface ForwardOptions {
  readonly auth: Auth
  readonly dialer: Dialer
  readonly clock: Clock
  readonly allowedOrigins: readonly string[]
  readonly sandboxOrigin: string | undefined
  readonly allowSharedOrigin: boolean
  /** Origins of pages that may show the sandbox in a frame, for a client that has used this host. */
  readonly framedBy: (host: string) => readonly string[]
  /** OpenCode's port while it runs. */
  readonly opencodePort: () => number | undefined
  readonly opencodePassword: string | undefined
  /** The server of `/v1`, which is started if necessary; undefined if there is none. */
  readonly v1Server: () => Promise<V1Address | undefined>
  /** A WebSocket was opened; the returned function is called when it is closed. */
  readonly onUpgrade: () => () => void
}

export const NO_TUNNEL = "there is no tunnel of this name"
export const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"])
/** Far below the time after which the `/v1` server closes an idle connection. */
const V1_IDLE_MS = 20_000

export const createForwarding = (options: ForwardOptions) => {
  const { auth, clock } = options

  /** A page of a tunnel is redirected to the tunnel's own host, if there is one, with a ticket for it. */
  const ownAddress = (
    head: RequestHead,
    { path }: Target,
    { search }: PersonGrant,
    { name }: Tunnel,
  ): HttpResponse | undefined => {
    if (options.allowSharedOrigin || !isPage(head)) return undefined
    const origin = originOfTunnel(options.sandboxOrigin, name, head.host)
    if (origin === undefined) return undefined
    const { ticket } = auth.tickets.issue("/", name)
    const rest = path.slice(pathOf(name).length) || "/"
    const query = search === "" ? `?ticket=${ticket}` : `${search}&ticket=${ticket}`
    return {
      status: 302,
      headers: { location: `${origin}${rest}${query}`, "referrer-policy": "no-referrer" },
    }
  }

  /** A page of another site may not open WebSockets, and may change nothing with the person's cookie. */
  const isCallAllowed = (head: RequestHead, grant: PersonGrant, upgrade: boolean): boolean => {
    const needsOrigin = upgrade || (grant.byCookie && !SAFE_METHODS.has(head.method))
    return !needsOrigin || isOriginAllowed(head, options.allowedOrigins)
  }

  /** While a WebSocket is open its session is in use. */
  const holdSession = ({ session }: PersonGrant) => {
    const closed = options.onUpgrade()
    session.sockets += 1
    return () => {
      session.sockets -= 1
      session.usedAt = clock.now()
      closed()
    }
  }

  const toBackend = (
    exchange: HttpExchange,
    target: Target,
    grant: PersonGrant,
    backend: Backend | undefined,
    tunnel?: Tunnel,
  ): void => {
    const { head } = exchange
    const upgrade = asksForWebSocket(head)
    if (!isCallAllowed(head, grant, upgrade)) return exchange.respond(refusal(head, "origin"))
    const cookie = () => cookieOf(grant.session, clock.now(), isLocal(head, exchange.peer), upgrade)
    if (backend?.port === undefined) return exchange.respond(notFound(head, NO_TUNNEL))
    const atRoot = target.path === backend.prefix
    if (atRoot || (!upgrade && isPage(head) && grant.search !== target.search)) {
      return exchange.respond(
        redirect(`${target.path}${atRoot ? "/" : ""}${grant.search}`, cookie()),
      )
    }
    const mismatch = tunnel && wrongProtocol(head, tunnel, upgrade)
    if (mismatch) return exchange.respond(mismatch)
    forwardRequest(
      exchange,
      {
        port: backend.port,
        prefix: backend.prefix,
        target: `${target.path.slice(backend.prefix.length)}${grant.search}`,
        peer: exchange.peer,
        scheme: schemeOf(head),
        passAuthorization: grant.passAuthorization,
        upgrade,
        socketOrigin: backend.socketOrigin,
        isolated: !options.allowSharedOrigin && isAgentContent(backend.prefix, target.path),
        // A page of a tunnel may be of the same site, so that browsers send the person's cookie from a frame in it.
        framedBy: tunnel ? undefined : options.framedBy(head.host),
        setCookie: grant.cookieDue || upgrade ? cookie() : undefined,
        onFailure: (why) => exchange.respond(backendDown(head, backend.title, why)),
        onUpgrade: () => holdSession(grant),
      },
      options,
    )
  }

  const toOpenCode = (exchange: HttpExchange, target: Target): void => {
    const { head } = exchange
    const port = options.opencodePort()
    if (port === undefined) return exchange.respond(backendDown(head, "OpenCode", "down"))
    const upgrade = asksForWebSocket(head)
    if (upgrade && !isOriginAllowed(head, options.allowedOrigins)) {
      return exchange.respond(refusal(head, "origin"))
    }
    if (hasBody(head) && !hasOpenCodePassword(head, target, options.opencodePassword)) {
      const why = "a body needs OpenCode's password (OPENCODE_SERVER_PASSWORD, user opencode)"
      return exchange.respond(errorResponse(401, "unauthorized", why))
    }
    const rest = target.path.slice("/opencode".length) || "/"
    forwardRequest(
      exchange,
      {
        port,
        prefix: "/opencode",
        target: `${rest}${withoutQuery(target.search, ["token", "ticket"])}`,
        peer: exchange.peer,
        scheme: schemeOf(head),
        passAuthorization: hasBasicAuthorization(head),
        upgrade,
        isolated: true,
        setCookie: undefined,
        onFailure: (why) => exchange.respond(backendDown(head, "OpenCode", why)),
        onUpgrade: options.onUpgrade,
      },
      options,
    )
  }

  const toV1 = async (exchange: HttpExchange, target: Target): Promise<void> => {
    const { head } = exchange
    const server = await options.v1Server()
    const title = "the server of files and processes"
    if (server === undefined) return exchange.respond(backendDown(head, title, "down"))
    forwardRequest(
      exchange,
      {
        port: server.port,
        prefix: "",
        target: `${target.path}${withoutQuery(target.search, ["token", "ticket"])}`,
        peer: exchange.peer,
        scheme: schemeOf(head),
        passAuthorization: false,
        authorization: `Bearer ${server.token}`,
        keepsIdleMs: V1_IDLE_MS,
        upgrade: false,
        isolated: true,
        setCookie: undefined,
        onFailure: (why) => exchange.respond(backendDown(head, title, why)),
        onUpgrade: options.onUpgrade,
      },
      options,
    )
  }

  return { ownAddress, isCallAllowed, holdSession, toBackend, toOpenCode, toV1 }
}

export const tunnelBackend = (tunnel: Tunnel): Backend => ({
  title: `the app behind the tunnel ${tunnel.name}`,
  port: tunnel.port,
  prefix: pathOf(tunnel.name),
})

/** Sends a browser that came with a token to the same address without it, so that the token is not in its history. */
export const redirect = (location: string, cookie: string): HttpResponse => ({
  status: 302,
  headers: { location, "set-cookie": cookie, "referrer-policy": "no-referrer" },
})

const wrongProtocol = (
  head: RequestHead,
  tunnel: Tunnel,
  upgrade: boolean,
): HttpResponse | undefined => {
  if (tunnel.protocol === "http" && upgrade) {
    return message(head, 403, "wrong-protocol", "this tunnel is for HTTP, not for WebSockets")
  }
  if (tunnel.protocol === "ws" && !upgrade) {
    return message(head, 426, "wrong-protocol", "this tunnel is for WebSockets only")
  }
  return undefined
}
