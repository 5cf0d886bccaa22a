/**
 * The page's host: serves the built files, exchanges login codes, and relays `/hub/*` to the session agent with its token,
 * which the browser never has. A login needs the cookie and the key together. All ports of a host share their cookies and
 * not their storage: a server of the agent on another port may receive the cookie, but never the key.
 */
import { z } from "zod"
import { parseJson } from "../../../lib/json.ts"
import { assetResponse, type PageFiles } from "../../../lib/page/asset-response.ts"
import {
  KEY_HEADER,
  KEY_PROTOCOL,
  makePageCookie,
  SOCKET_PROTOCOL,
} from "../../../lib/page/page-cookie.ts"
import { assetHeaders, pageHeaders } from "../../../lib/page/page-headers.ts"
import type { PageLogins } from "../../../lib/page/page-logins.ts"
import { findPageRoute, type PageRoute, type PageRouteName } from "../../../lib/page/page-routes.ts"
import type { Attempts } from "../../../lib/failed-attempts.ts"
import { errorResponse } from "../error-response.ts"
import { frameSources, type PageOrigins } from "../hosts.ts"
import { pageCookies } from "../http/cookies.ts"
import type { RequestHead } from "../http/head.ts"
import { schemeOf, valueOf } from "../http/request-info.ts"
import { type Target, withoutQuery } from "../http/target.ts"
import { backendDown, methodNotAllowed, notFound, refusal } from "../pages.ts"
import { forwardRequest, type ProxyPorts } from "../proxy/http.ts"
import { asksForWebSocket, isOriginAllowed } from "../proxy/ws.ts"
import { readSmallBody } from "../read-small-body.ts"
import type { HttpExchange } from "../tcp/http-exchange.ts"

export interface PageOptions extends PageOrigins {
  readonly files: PageFiles
  readonly logins: PageLogins
  /** The session agent on loopback, and the value of `Authorization` that it accepts. */
  readonly hub: { readonly port: number; readonly authorization: string }
}

export interface PageDoorOptions extends ProxyPorts {
  readonly page: PageOptions
  readonly attempts: Attempts
  readonly onUpgrade: () => () => void
  /** Every login was ended: open connections of people end too. */
  readonly onLoggedOut: () => void
  readonly onError: (exchange: HttpExchange, error: unknown) => void
}

type Handler = (exchange: HttpExchange, target: Target, setCookie: string | undefined) => void

/** People log in with links here: the sandbox has one person. */
const NO_TOKENS = {
  status: 200,
  headers: { "content-type": "application/json" },
  body: '{"tokens":false}',
} as const

const loginBody = z.object({ code: z.string().min(1).max(128) })

export const createPageDoor = (
  options: PageDoorOptions,
): ((exchange: HttpExchange, target: Target) => void) => {
  const { page, attempts } = options
  const { logins, hub } = page

  const handlers: { readonly [Name in PageRouteName]: Handler } = {
    page: (exchange) => serveDocument(exchange),
    // The page itself reads the rest of the path.
    conversation: (exchange) => serveDocument(exchange),
    "page-asset": (exchange, target) => serveFile(exchange, target),
    "page-file": (exchange, target) => serveFile(exchange, target),
    login: (exchange) =>
      exchange.head.method === "GET"
        ? exchange.respond(NO_TOKENS)
        : readSmallBody(exchange, (text) => logIn(exchange, text), options.onError),
    logout: (exchange) => {
      logins.endAll()
      exchange.respond({
        status: 200,
        headers: { "content-type": "application/json", "set-cookie": cookieFor(exchange, "", 0) },
        body: '{"ok":true}',
      })
      options.onLoggedOut()
    },
    hub: (exchange, target, setCookie) => relay(exchange, target, setCookie),
  }

  const serveDocument = (exchange: HttpExchange): void => {
    const file = page.files.get("index.html")
    if (file === undefined) return exchange.respond(notFound(exchange.head, NOT_BUILT))
    const headers = pageHeaders(frameSources(page, exchange.head.host))
    exchange.respond(assetResponse(headerOf(exchange), file, headers))
  }

  const serveFile = (exchange: HttpExchange, { path }: Target): void => {
    const file = page.files.get(path.slice(1))
    if (file === undefined) return exchange.respond(notFound(exchange.head))
    exchange.respond(assetResponse(headerOf(exchange), file, assetHeaders))
  }

  const logIn = (exchange: HttpExchange, text: string): void => {
    const { head, peer } = exchange
    if (!/^application\/json\s*(?:;|$)/i.test(valueOf(head, "content-type") ?? "")) {
      return exchange.respond(errorResponse(400, "malformed", "the body must be JSON"))
    }
    const body = loginBody.safeParse(parseJson(text))
    if (!body.success) return exchange.respond(errorResponse(400, "malformed", "code is missing"))
    const login = logins.redeem(body.data.code)
    if (login === undefined) {
      return exchange.respond(refusal(head, attempts.failed(peer) ? "too-many" : "bad-code"))
    }
    exchange.isTrusted = true
    exchange.respond({
      status: 200,
      headers: {
        "content-type": "application/json",
        "set-cookie": cookieFor(exchange, login.cookie, login.maxAgeSeconds),
      },
      body: JSON.stringify({ key: login.key }),
    })
  }

  /** The `Set-Cookie` that is due, or `undefined`; a refusal if the browser is not logged in. */
  const checkLogin = (
    exchange: HttpExchange,
  ): { readonly setCookie: string | undefined } | "not-logged-in" | "too-many" => {
    const { head, peer } = exchange
    const key = keyOf(head)
    const cookies = [...pageCookies(head.headers)]
    if (key === undefined || cookies.length === 0) return "not-logged-in"
    const login = logins.use(cookies, key)
    // A token has the rights of its owner; this route has the operator's only.
    if (login === undefined || login.sealed !== undefined)
      return attempts.failed(peer) ? "too-many" : "not-logged-in"
    const { cookie, renewSeconds: seconds } = login
    return { setCookie: seconds === undefined ? undefined : cookieFor(exchange, cookie, seconds) }
  }

  const relay = (exchange: HttpExchange, target: Target, setCookie: string | undefined): void => {
    const { head } = exchange
    const upgrade = asksForWebSocket(head)
    forwardRequest(
      exchange,
      {
        port: hub.port,
        prefix: "/hub",
        target: `${target.path.slice("/hub".length)}${withoutQuery(target.search, ["token"])}`,
        peer: exchange.peer,
        scheme: schemeOf(head),
        passAuthorization: false,
        hubAuthorization: hub.authorization,
        socketProtocol: upgrade ? SOCKET_PROTOCOL : undefined,
        upgrade,
        // What the hub stores may come from the agent. No browser shows it as a page of this origin.
        isolated: true,
        setCookie,
        onFailure: (why) => exchange.respond(backendDown(head, "the session agent", why)),
        onUpgrade: options.onUpgrade,
      },
      options,
    )
  }

  const enter = (route: PageRoute, exchange: HttpExchange, target: Target): void => {
    if (route.access === "open") return handlers[route.name](exchange, target, undefined)
    const login = checkLogin(exchange)
    if (typeof login === "string") return exchange.respond(refusal(exchange.head, login))
    exchange.isTrusted = true
    handlers[route.name](exchange, target, login.setCookie)
  }

  return (exchange, target) => {
    const { head } = exchange
    const route = findPageRoute(target.path)
    if (route === undefined) return exchange.respond(notFound(head))
    exchange.route = route.name
    const methods: readonly string[] = route.methods
    if (!methods.includes(head.method)) {
      return exchange.respond(methodNotAllowed(head, methods.join(", ")))
    }
    if (route.sameOrigin && !isSameOrigin(head)) return exchange.respond(refusal(head, "origin"))
    enter(route, exchange, target)
  }
}

const NOT_BUILT = "this program was built without the page: run `npm run build`"

/** Browsers state where a request comes from; a program states nothing and needs a login all the same. */
const isSameOrigin = (head: RequestHead): boolean => {
  const site = valueOf(head, "sec-fetch-site")
  return isOriginAllowed(head, []) && (site === undefined || site === "same-origin")
}

const keyOf = (head: RequestHead): string | undefined =>
  asksForWebSocket(head)
    ? KEY_PROTOCOL.exec(valueOf(head, "sec-websocket-protocol") ?? "")?.[1]
    : valueOf(head, KEY_HEADER)

const headerOf =
  ({ head }: HttpExchange) =>
  (name: string) =>
    valueOf(head, name)

const cookieFor = (exchange: HttpExchange, value: string, maxAgeSeconds: number): string =>
  makePageCookie(value, maxAgeSeconds, schemeOf(exchange.head) === "https")
