/**
 * The page where the hub itself serves it (`serve`, Durable Object): the built files, logins, and `/hub/*`, which is the
 * hub's API for a browser that has logged in. The API is called with the operator's token after a login link, and with
 * the person's own token after a login with that token. A login needs the cookie and the key together: cookies are shared
 * by all ports of a host, storage is not.
 */
import { z } from "zod"
import {
  KEY_HEADER,
  KEY_PROTOCOL,
  makePageCookie,
  pageCookiesIn,
  SOCKET_PROTOCOL,
} from "../lib/page/page-cookie.ts"
import { assetHeaders, pageHeaders } from "../lib/page/page-headers.ts"
import type { RemotePageLogins } from "../lib/page/page-logins.ts"
import { findPageRoute } from "../lib/page/page-routes.ts"
import { openToken, type PageToken } from "./access/seal-token.ts"
import { tooManyWrongSecrets } from "./access/wrong-secrets.ts"
import { errorResponse, isUpgrade, parseBody } from "./http-responses.ts"
import { hashOf } from "./keys.ts"
import {
  type AskApi,
  beginTokenLogin,
  isOutside,
  sharedList,
  tokenBody,
} from "./page-token-login.ts"

export interface HubPage {
  /** A built file by its path without the leading slash, with its type and its cache headers. */
  readonly file: (request: Request, path: string) => Promise<Response | undefined>
  readonly logins: RemotePageLogins
  /** Origins of sandboxes, which the page may show in frames. */
  readonly frames: readonly string[]
  /** The operator's token, which the browser never has. */
  readonly token: string
}

/** The API answers this request; `undefined` when it has become a WebSocket. */
export type CallApi = (
  inner: Request,
  socketProtocol: string | undefined,
) => Promise<Response | undefined>

const loginBody = z.union([z.object({ code: z.string().min(1).max(128) }), tokenBody])
/** The longest token, as JSON may write it. Nobody has shown yet who it is. */
const MAX_LOGIN_BYTES = 64 * 1024
/** Where the Workers runtime names the address of the caller. */
export const ADDRESS_HEADER = "cf-connecting-ip"
const NO_FRAMES = ["'none'"]

export const handlePage = async (
  page: HubPage,
  request: Request,
  callApi: CallApi,
  wrongSecret: () => boolean | Promise<boolean>,
): Promise<Response | undefined> => {
  const url = publicUrl(request)
  const route = findPageRoute(url.pathname)
  if (!route) return errorResponse(404, "no such route")
  const methods: readonly string[] = route.methods
  if (!methods.includes(request.method)) return errorResponse(405, `use ${methods.join(" or ")}`)
  if (route.sameOrigin && !isSameOrigin(request, url))
    return errorResponse(403, "only the page itself may call this")
  switch (route.name) {
    case "page":
    case "conversation": {
      const frames = page.frames.length === 0 ? NO_FRAMES : page.frames
      return sendFile(page, request, "index.html", pageHeaders(frames))
    }
    case "page-asset":
    case "page-file":
      return sendFile(page, request, url.pathname.slice(1), assetHeaders)
    case "login":
      return request.method === "GET"
        ? Response.json({ tokens: true })
        : logIn(page, request, url, askWith(request, url, callApi), wrongSecret)
    case "logout":
    case "hub":
      break
  }
  const login = await checkLogin(page, request, url)
  if (!login) return errorResponse(401, "this browser is not logged in")
  if (route.name === "logout") {
    await page.logins.endAll(login.token && (await hashOf(login.token.token)))
    return withHeaders(Response.json({ ok: true }), { "set-cookie": cookieFor(url, "", 0) })
  }
  return relay(page, request, url, login, callApi)
}

/** A request of the page's own, with a token. */
const askWith =
  ({ headers }: Request, url: URL, callApi: CallApi): AskApi =>
  (token, path) => {
    const from = headers.get(ADDRESS_HEADER)
    return callApi(
      new Request(new URL(path, url).href, {
        headers: {
          authorization: `Bearer ${token}`,
          ...(from !== null && { [ADDRESS_HEADER]: from }),
        },
      }),
      undefined,
    )
  }

const sendFile = async (
  page: HubPage,
  request: Request,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<Response> => {
  const file = await page.file(request, path)
  if (!file) return errorResponse(404, "no such file")
  return withHeaders(file, { ...headers, "x-content-type-options": "nosniff" })
}

const logIn = async (
  page: HubPage,
  request: Request,
  url: URL,
  ask: AskApi,
  wrongSecret: () => boolean | Promise<boolean>,
): Promise<Response> => {
  const type = request.headers.get("content-type") ?? ""
  if (!/^application\/json\s*(?:;|$)/i.test(type))
    return errorResponse(400, "the body must be JSON")
  const body = await parseBody(request, loginBody, MAX_LOGIN_BYTES)
  if (body instanceof Response) return body
  const login =
    "code" in body.data
      ? await page.logins.redeem(body.data.code)
      : await beginTokenLogin(page.logins, body.data, ask)
  // The API has counted a token; a code is counted here.
  if (login === "too-many" || (!login && "code" in body.data && (await wrongSecret())))
    return tooManyWrongSecrets()
  if (!login)
    return errorResponse(
      401,
      "code" in body.data
        ? "the code is not valid, or it was used before"
        : "the token is not valid, or it may not read sessions; a share link is valid for its session only",
    )
  return withHeaders(Response.json({ key: login.key }), {
    "set-cookie": cookieFor(url, login.cookie, login.maxAgeSeconds),
    "cache-control": "no-store",
  })
}

interface CheckedLogin {
  readonly setCookie: string | undefined
  /** Absent: the operator's login. */
  readonly token?: PageToken
}

const checkLogin = async (
  { logins }: HubPage,
  request: Request,
  url: URL,
): Promise<CheckedLogin | undefined> => {
  const key = keyOf(request)
  if (key === undefined) return undefined
  const cookies = pageCookiesIn(request.headers.get("cookie") ?? "")
  const login = cookies.length === 0 ? undefined : await logins.use(cookies, key)
  if (!login) return undefined
  const { cookie, renewSeconds: seconds, sealed } = login
  const setCookie = seconds === undefined ? undefined : cookieFor(url, cookie, seconds)
  if (sealed === undefined) return { setCookie }
  const token = await openToken(cookie, key, sealed)
  return token && { setCookie, token }
}

const relay = async (
  page: HubPage,
  request: Request,
  url: URL,
  { setCookie, token }: CheckedLogin,
  callApi: CallApi,
): Promise<Response | undefined> => {
  const target = new URL(url)
  target.pathname = url.pathname.slice("/hub".length)
  target.searchParams.delete("token")
  const headers = new Headers(request.headers)
  headers.delete("cookie")
  headers.delete(KEY_HEADER)
  headers.delete("sec-websocket-protocol")
  // It was compared with the host above. The API would compare the scheme too, which a proxy may have changed.
  headers.delete("origin")
  headers.set("authorization", `Bearer ${token?.token ?? page.token}`)
  const { method, body } = request
  const isSocket = isUpgrade(request)
  const inner = new Request(target.href, { method, headers, ...(!isSocket && body && { body }) })
  const isList = token?.session !== undefined && !isSocket && target.pathname === "/sessions"
  const answer =
    isList && method === "GET"
      ? await sharedList(token, askWith(request, url, callApi))
      : await callApi(inner, isSocket ? SOCKET_PROTOCOL : undefined)
  if (!answer || answer.status === 101) return answer
  const response =
    answer.status === 401 && token && isOutside(token, target.pathname) && !isList
      ? errorResponse(403, "this share link is for another session")
      : answer
  return withHeaders(response, {
    ...(setCookie !== undefined && { "set-cookie": setCookie }),
    "x-content-type-options": "nosniff",
    // What the hub stores may come from the agent. No browser shows it as a page of this origin.
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    vary: "cookie",
  })
}

const withHeaders = (response: Response, added: Readonly<Record<string, string>>): Response => {
  const headers = new Headers(response.headers)
  for (const [name, value] of Object.entries(added)) headers.set(name, value)
  return new Response(response.body, { status: response.status, headers })
}

/** Browsers state where a request comes from; a program states nothing and needs a login all the same. */
const isSameOrigin = (request: Request, url: URL): boolean => {
  const origin = request.headers.get("origin")
  const site = request.headers.get("sec-fetch-site")
  // Behind a proxy that ends TLS the hub sees http: only the host is compared.
  const isOwn = origin === null || (URL.canParse(origin) && new URL(origin).host === url.host)
  return isOwn && (site === null || site === "same-origin")
}

const keyOf = (request: Request): string | undefined =>
  isUpgrade(request)
    ? KEY_PROTOCOL.exec(request.headers.get("sec-websocket-protocol") ?? "")?.[1]
    : (request.headers.get(KEY_HEADER) ?? undefined)

const cookieFor = (url: URL, value: string, maxAgeSeconds: number): string =>
  makePageCookie(value, maxAgeSeconds, url.protocol === "https:")

/** The address as the browser knows it: a proxy that ends TLS says so. */
const publicUrl = (request: Request): URL => {
  const url = new URL(request.url)
  if (request.headers.get("x-forwarded-proto") === "https") url.protocol = "https:"
  return url
}
