/** Routes a request: finds its row in the table, applies the guard of the row's `access`, and calls the row's handler. */
import type { ServiceLog } from "../sandbox/services/service-log.ts"
import type { Terminals } from "../sandbox/terminals.ts"
import type { Tunnels } from "../sandbox/tunnels.ts"
import type { Api } from "./api.ts"
import { cookieOf, type Grants, type KeyGrant, type PersonGrant, type Refusal } from "./auth.ts"
import { errorResponse } from "./error-response.ts"
import {
  createForwarding,
  type ForwardOptions,
  NO_TUNNEL,
  redirect,
  SAFE_METHODS,
  tunnelBackend,
} from "./forward.ts"
import { hostKind, originFor } from "./hosts.ts"
import { HttpError } from "./http/fields.ts"
import type { RequestHead } from "./http/head.ts"
import { isLocal, isPage } from "./http/request-info.ts"
import type { HttpResponse } from "./http/response.ts"
import { parseTarget, type Target } from "./http/target.ts"
import { createPageDoor, type PageOptions } from "./page/page-door.ts"
import { message, methodNotAllowed, notFound, refusal } from "./pages.ts"
import { backendOf, type BackendPorts } from "./proxy/backends.ts"
import { asksForWebSocket, isOriginAllowed } from "./proxy/ws.ts"
import { type AccessOf, findRoute, type RouteName, type RowOf, tunnelHostRoute } from "./routes.ts"
import { serveApiTerminal } from "./serve-api-terminal.ts"
import { serveApi } from "./serve-api.ts"
import { serveLog } from "./serve-log.ts"
import { createTerminalRoutes, type TerminalPorts } from "./serve-terminals.ts"
import type { HttpExchange } from "./tcp/http-exchange.ts"

type ReportName = "health-verbose" | "ready" | "metrics"

export interface RequestHandlerOptions extends Omit<ForwardOptions, "framedBy"> {
  readonly api: Api
  readonly tunnels: Tunnels
  readonly ports: BackendPorts
  readonly serviceLog: (name: string) => ServiceLog | undefined
  readonly report: (name: ReportName) => HttpResponse
  readonly agentDirectory: string
  /** The sandbox's own terminals; without them there are none. */
  readonly terminal: TerminalPorts | undefined
  /** The terminals that `/api/terminal` opens. */
  readonly terminals?: Terminals | undefined
  /** The page and its host; without it every host is the sandbox's. */
  readonly page: PageOptions | undefined
  /** Every login of the page was ended. */
  readonly onLoggedOut: () => void
  /** A handler of this route threw. */
  readonly onError: (route: string, error: unknown) => void
}

/** `Grant` is what the guard of the row returned: without it a handler cannot be called. */
type Handler<Grant> = (exchange: HttpExchange, target: Target, grant: Grant) => void
type Handlers = { readonly [Name in RouteName]: Handler<Grants[AccessOf<Name>]> }

const HEALTHY: HttpResponse = {
  status: 200,
  headers: { "content-type": "application/json" },
  body: '{"ok":true}',
}

/** As sandbox-agent's server answers. */
const V1_HEALTHY: HttpResponse = { ...HEALTHY, body: '{"status":"ok"}' }

/** Accesses whose guard has checked a token or a cookie. */
const AUTHENTICATED = new Set<string>([
  "observer",
  "person",
  "tool",
  "control",
  "tool+control",
  "person+control",
  "tool+person+control",
])
const READ_METHODS = new Set(["GET", "HEAD"])

export const createRequestHandler = (
  options: RequestHandlerOptions,
): ((exchange: HttpExchange) => void) => {
  const { auth, tunnels, clock } = options
  const framedBy = (host: string): readonly string[] => [
    ...(options.page ? [originFor(options.page.page, host)] : []),
    ...options.allowedOrigins,
  ]
  const { ownAddress, isCallAllowed, holdSession, toBackend, toOpenCode, toV1 } = createForwarding({
    ...options,
    framedBy,
  })

  const handle = (exchange: HttpExchange): void => {
    const { head } = exchange
    if (head.method === "CONNECT" || head.method === "TRACE") {
      return exchange.respond(methodNotAllowed(head, "GET and the like"))
    }
    const target = parseTarget(head.target)
    const kind = options.page && hostKind(head.host, options.page)
    if (kind === "unknown") return exchange.respond(refusal(head, "host"))
    if (kind === "page") return pageDoor?.(exchange, target)
    const isTunnelHost = kind !== "box" && tunnels.findByHost(head.host) !== undefined
    // The rows of the sandbox are on one host: the name of a missing tunnel has none.
    if (kind === "tunnel" && !isTunnelHost) return exchange.respond(notFound(head, NO_TUNNEL))
    const route = isTunnelHost ? tunnelHostRoute : findRoute(target.path, target.search)
    if (route === undefined) return exchange.respond(notFound(head))
    exchange.route = route.name
    enter(route, exchange, target)
  }

  /** The only way to a handler: the guard is that of the row's `access`, and the handler is that of the row's name. */
  const enter = <Name extends RouteName>(
    route: RowOf<Name>,
    exchange: HttpExchange,
    target: Target,
  ): void => {
    const { head, peer } = exchange
    const decide = (verdict: Grants[AccessOf<Name>] | Refusal) => {
      if (isRefusal(verdict)) return exchange.respond(refusal(head, verdict))
      exchange.isTrusted = AUTHENTICATED.has(route.access)
      handlers[route.name](exchange, target, verdict)
    }
    const verdict = auth.guards[route.access](head, target, peer)
    if (!(verdict instanceof Promise)) return decide(verdict)
    verdict.then(decide).catch((error: unknown) => fail(exchange, error))
  }

  const report =
    (name: ReportName): Handler<unknown> =>
    (exchange) =>
      exchange.respond(readOnly(exchange.head) ?? options.report(name))

  const service =
    (name: keyof BackendPorts): Handler<PersonGrant> =>
    (exchange, target, grant) =>
      toBackend(exchange, target, grant, backendOf(name, options.ports))

  const handlers: Handlers = {
    health: (exchange) => exchange.respond(readOnly(exchange.head) ?? HEALTHY),
    "api-health": (exchange) => exchange.respond(readOnly(exchange.head) ?? V1_HEALTHY),
    "health-verbose": report("health-verbose"),
    ready: report("ready"),
    metrics: report("metrics"),
    vscode: service("vscode"),
    vnc: service("vnc"),
    ttyd: service("ttyd"),
    terminal: (exchange, target, grant) => {
      const { head } = exchange
      const upgrade = asksForWebSocket(head)
      if (!isCallAllowed(head, grant, upgrade)) return exchange.respond(refusal(head, "origin"))
      const cookie = () =>
        cookieOf(grant.session, clock.now(), isLocal(head, exchange.peer), upgrade)
      const isRoot = target.path === "/terminal"
      if (isRoot || (isPage(head) && grant.search !== target.search))
        return exchange.respond(redirect(`/terminal/${grant.search}`, cookie()))
      if (terminalRoutes === undefined) return exchange.respond(notFound(head))
      const visit = {
        setCookie: grant.cookieDue || upgrade ? cookie() : undefined,
        onUpgrade: () => holdSession(grant),
      }
      terminalRoutes(exchange, { ...target, search: grant.search }, visit)
    },
    tunnel: (exchange, target, grant) => {
      const tunnel = tunnels.find(target.path.split("/", 3)[2] ?? "")
      const elsewhere = tunnel && ownAddress(exchange.head, target, grant, tunnel)
      if (elsewhere !== undefined) return exchange.respond(elsewhere)
      toBackend(exchange, target, grant, tunnel && tunnelBackend(tunnel), tunnel)
    },
    "tunnel-host": (exchange, target, grant) => {
      const tunnel = tunnels.findByHost(exchange.head.host)
      const backend = tunnel && { ...tunnelBackend(tunnel), prefix: "" }
      toBackend(exchange, target, grant, backend, tunnel)
    },
    api: (exchange, target) => toApi(exchange, target),
    services: (exchange, target, grant) => byKey(exchange, target, grant, toApi),
    expose: (exchange, target, grant) => byKey(exchange, target, grant, toApi),
    website: (exchange, target, grant) => byKey(exchange, target, grant, toApi),
    workspace: (exchange, target, grant) => byKey(exchange, target, grant, toApi),
    env: (exchange, target, grant) => byKey(exchange, target, grant, toApi),
    "service-log": (exchange, target, grant) =>
      byKey(exchange, target, grant, () => {
        const wrongMethod = readOnly(exchange.head)
        if (wrongMethod) return exchange.respond(wrongMethod)
        const log = options.serviceLog(target.path.split("/")[3] ?? "")
        serveLog(exchange, log, clock, (error) => fail(exchange, error))
      }),
    "api-terminal": (exchange, target, grant) => {
      const { head } = exchange
      const person = grant.by === "person" ? grant.person : undefined
      if (!asksForWebSocket(head))
        return exchange.respond(message(head, 426, "not-a-websocket", "this route is a WebSocket"))
      // A browser sends the cookie by itself; a control token is in a header, which no page can set.
      if (person && !isOriginAllowed(head, options.allowedOrigins))
        return exchange.respond(refusal(head, "origin"))
      if (!options.terminals) return exchange.respond(notFound(head))
      const search = person?.search ?? target.search
      serveApiTerminal(exchange, { ...target, search }, options.terminals, clock, {
        setCookie:
          person && cookieOf(person.session, clock.now(), isLocal(head, exchange.peer), true),
        onUpgrade: () => (person ? holdSession(person) : options.onUpgrade()),
      })
    },
    "v1-health": (exchange) => exchange.respond(readOnly(exchange.head) ?? V1_HEALTHY),
    "v1-agent-directory": (exchange) => {
      const body = JSON.stringify({ path: options.agentDirectory })
      exchange.respond(readOnly(exchange.head) ?? { ...HEALTHY, body })
    },
    git: (exchange, target) => {
      const refused = readOnly(exchange.head)
      return refused ? exchange.respond(refused) : void toV1(exchange, target)
    },
    "v1-files": (exchange, target) => void toV1(exchange, target),
    "v1-processes": (exchange, target) => void toV1(exchange, target),
    opencode: (exchange, target) => toOpenCode(exchange, target),
  }

  const toApi = (exchange: HttpExchange, target: Target) =>
    serveApi(exchange, target, options.api, clock, (error) => fail(exchange, error))

  /** A cookie alone may have been sent by a page of another site: its origin must be allowed. */
  const byKey = (
    exchange: HttpExchange,
    target: Target,
    grant: KeyGrant,
    serve: (exchange: HttpExchange, target: Target) => void,
  ): void => {
    const { head } = exchange
    const needsOrigin =
      grant.by === "person" && grant.person.byCookie && !SAFE_METHODS.has(head.method)
    if (needsOrigin && !isOriginAllowed(head, options.allowedOrigins)) {
      return exchange.respond(refusal(head, "origin"))
    }
    serve(exchange, target)
  }

  const terminalRoutes =
    options.terminal &&
    createTerminalRoutes({
      ...options.terminal,
      clock,
      framedBy,
      onError: (exchange, error) => fail(exchange, error),
    })
  const pageDoor =
    options.page &&
    createPageDoor({
      ...options,
      page: options.page,
      attempts: auth.attempts,
      onError: (exchange, error) => fail(exchange, error),
    })

  /** An error affects only its own request: the client gets a response, and the gateway continues. */
  const fail = (exchange: HttpExchange, error: unknown) => {
    if (error instanceof HttpError) {
      return exchange.respond(errorResponse(error.status, "malformed", error.message))
    }
    options.onError(exchange.route, error)
    exchange.respond(
      errorResponse(
        500,
        "internal",
        "the runner failed to handle the request: its log has the reason",
      ),
    )
  }

  return (exchange) => {
    try {
      handle(exchange)
    } catch (error) {
      fail(exchange, error)
    }
  }
}

const isRefusal = (verdict: unknown): verdict is Refusal => typeof verdict === "string"

const readOnly = (head: RequestHead): HttpResponse | undefined =>
  READ_METHODS.has(head.method) ? undefined : methodNotAllowed(head, "GET")
