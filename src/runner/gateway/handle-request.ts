/** The way of a request through the gateway: its address, its row in the table, who sent it, and what serves it. */
import type { Clock } from "../../lib/clock.ts"
import type { Api } from "./api.ts"
import { type Auth, cookieOf, type PersonGrant } from "./auth.ts"
import { type Backend, backendOf, type BackendPorts } from "./proxy/backends.ts"
import { hasBasicAuthorization, isLocal, isPage, schemeOf } from "./http/request-info.ts"
import { HttpError } from "./http/fields.ts"
import type { RequestHead } from "./http/head.ts"
import { errorResponse } from "./error-response.ts"
import type { HttpResponse } from "./http/response.ts"
import { parseTarget, type Target, withoutQuery } from "./http/target.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"
import type { Dialer } from "./tcp/backend-connections.ts"
import { serveApi } from "./serve-api.ts"
import { backendDown, methodNotAllowed, notFound, refusal, say } from "./pages.ts"
import { asksForWebSocket, isOriginAllowed } from "./proxy/ws.ts"
import { forwardRequest } from "./proxy/http.ts"
import { findRoute, type Route } from "./routes.ts"
import { pathOf, type Tunnel, type Tunnels } from "../sandbox/tunnels.ts"

export interface RequestHandlerOptions {
  readonly auth: Auth
  readonly api: Api
  readonly tunnels: Tunnels
  readonly dialer: Dialer
  readonly clock: Clock
  readonly ports: BackendPorts
  readonly allowedOrigins: readonly string[]
  /** Where OpenCode listens, once it does. */
  readonly opencodePort: () => number | undefined
  readonly report: (name: "health-verbose" | "ready" | "metrics") => HttpResponse
  readonly socketOpened: () => () => void
  /** Something of our own broke while a request of this route was served. */
  readonly failed: (route: string, error: unknown) => void
}

const HEALTHY: HttpResponse = {
  status: 200,
  headers: { "content-type": "application/json" },
  body: '{"ok":true}',
}

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS"])
const READ_METHODS = new Set(["GET", "HEAD"])

export const createRequestHandler = (
  options: RequestHandlerOptions,
): ((exchange: HttpExchange) => void) => {
  const { auth, tunnels, clock } = options

  const serve = (exchange: HttpExchange): void => {
    const { head } = exchange
    if (head.method === "CONNECT" || head.method === "TRACE") {
      return exchange.respond(methodNotAllowed(head, "GET and the like"))
    }
    const target = parseTarget(head.target)
    const tunnel = tunnels.findByHost(head.host)
    if (tunnel !== undefined) {
      exchange.route = "tunnel-host"
      return asPerson(exchange, target, { ...tunnelBackend(tunnel), prefix: "" }, tunnel)
    }
    const route = findRoute(target.path, target.search)
    if (route === undefined) return exchange.respond(notFound(head))
    exchange.route = route.name
    serveRoute(exchange, target, route)
  }

  const serveRoute = (exchange: HttpExchange, target: Target, route: Route): void => {
    switch (route.name) {
      case "health":
        return exchange.respond(readOnly(exchange.head) ?? HEALTHY)
      case "health-verbose":
      case "ready":
      case "metrics":
        return void guarded(exchange, () => asObserver(exchange, target, route.name))
      case "vscode":
      case "vnc":
      case "ttyd":
        return asPerson(exchange, target, backendOf(route.name, options.ports))
      case "tunnel": {
        const name = target.path.split("/", 3)[2] ?? ""
        const tunnel = tunnels.find(name)
        // Who is not let in does not learn which names there are: the door comes first.
        return asPerson(exchange, target, tunnel && tunnelBackend(tunnel), tunnel)
      }
      case "api": {
        const refused = auth.tool(exchange.head, exchange.peer)
        if (refused !== undefined) return exchange.respond(refusal(exchange.head, refused))
        return serveApi(exchange, target, options.api, clock, (error) => fail(exchange, error))
      }
      case "opencode":
        return toOpenCode(exchange, target)
      case "tunnel-host":
        // Found by its host before any path is looked at.
        return exchange.respond(notFound(exchange.head))
    }
  }

  const asObserver = async (
    exchange: HttpExchange,
    target: Target,
    name: "health-verbose" | "ready" | "metrics",
  ) => {
    const refused = await auth.observer(exchange.head, target, exchange.peer)
    if (refused !== undefined) return exchange.respond(refusal(exchange.head, refused))
    exchange.respond(readOnly(exchange.head) ?? options.report(name))
  }

  const asPerson = (
    exchange: HttpExchange,
    target: Target,
    backend: Backend | undefined,
    tunnel?: Tunnel,
  ): void => {
    const { head, peer } = exchange
    const enter = (entry: PersonGrant) => toBackend(exchange, target, entry, backend, tunnel)
    const verdict = auth.person(head, target, peer)
    if (!(verdict instanceof Promise)) {
      return typeof verdict === "string" ? exchange.respond(refusal(head, verdict)) : enter(verdict)
    }
    const decide = async () => {
      const later = await verdict
      if (typeof later === "string") exchange.respond(refusal(head, later))
      else enter(later)
    }
    void guarded(exchange, decide)
  }

  const toBackend = (
    exchange: HttpExchange,
    target: Target,
    entry: PersonGrant,
    backend: Backend | undefined,
    tunnel: Tunnel | undefined,
  ): void => {
    const { head } = exchange
    const upgrade = asksForWebSocket(head)
    const risky = upgrade || (entry.byCookie && !SAFE_METHODS.has(head.method))
    if (risky && !isOriginAllowed(head, options.allowedOrigins)) {
      return exchange.respond(refusal(head, "origin"))
    }
    const cookie = () => cookieOf(entry.session, clock.now(), isLocal(head, exchange.peer), upgrade)
    if (backend?.port === undefined)
      return exchange.respond(notFound(head, "there is no tunnel of this name"))
    const atRoot = target.path === backend.prefix
    if (atRoot || (!upgrade && isPage(head) && entry.search !== target.search)) {
      return exchange.respond(
        redirect(`${target.path}${atRoot ? "/" : ""}${entry.search}`, cookie()),
      )
    }
    const mismatch = tunnel && wrongProtocol(head, tunnel, upgrade)
    if (mismatch) return exchange.respond(mismatch)
    const { session } = entry
    forwardRequest(
      exchange,
      {
        port: backend.port,
        prefix: backend.prefix,
        target: `${target.path.slice(backend.prefix.length)}${entry.search}`,
        peer: exchange.peer,
        scheme: schemeOf(head),
        passAuthorization: entry.passAuthorization,
        upgrade,
        setCookie: entry.cookieDue || upgrade ? cookie() : undefined,
        onFailure: (why) => exchange.respond(backendDown(head, backend.title, why)),
        onUpgrade: () => {
          const closed = options.socketOpened()
          session.sockets += 1
          return () => {
            session.sockets -= 1
            session.usedAt = clock.now()
            closed()
          }
        },
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
        setCookie: undefined,
        onFailure: (why) => exchange.respond(backendDown(head, "OpenCode", why)),
        onUpgrade: options.socketOpened,
      },
      options,
    )
  }

  /** A request that fails here fails alone: its client is told so, and the runner goes on. */
  const guarded = async (
    exchange: HttpExchange,
    run: () => Promise<void> | void,
  ): Promise<void> => {
    try {
      await run()
    } catch (error) {
      fail(exchange, error)
    }
  }
  const fail = (exchange: HttpExchange, error: unknown) => {
    if (error instanceof HttpError) {
      return exchange.respond(errorResponse(error.status, "malformed", error.message))
    }
    options.failed(exchange.route, error)
    exchange.respond(errorResponse(500, "internal", "something went wrong in the runner"))
  }

  return (exchange) => {
    try {
      serve(exchange)
    } catch (error) {
      fail(exchange, error)
    }
  }
}

const tunnelBackend = (tunnel: Tunnel): Backend => ({
  title: `what the tunnel ${tunnel.name} leads to`,
  port: tunnel.port,
  prefix: pathOf(tunnel.name),
})

const readOnly = (head: RequestHead): HttpResponse | undefined =>
  READ_METHODS.has(head.method) ? undefined : methodNotAllowed(head, "GET")

/** A browser that came with a token is sent to the same place without it, so that it stays in no history. */
const redirect = (location: string, cookie: string): HttpResponse => ({
  status: 302,
  headers: { location, "set-cookie": cookie, "referrer-policy": "no-referrer" },
})

const wrongProtocol = (
  head: RequestHead,
  tunnel: Tunnel,
  upgrade: boolean,
): HttpResponse | undefined => {
  if (tunnel.protocol === "http" && upgrade) {
    return say(head, 403, "wrong-protocol", "this tunnel is for HTTP, not for WebSockets")
  }
  if (tunnel.protocol === "ws" && !upgrade) {
    return say(head, 426, "wrong-protocol", "this tunnel is for WebSockets only")
  }
  return undefined
}
