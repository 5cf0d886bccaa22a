/** The HTTP API of the fleet: the route, who calls, a repeated call, the handler, and the form of errors. */
import { hideCredentials } from "../lib/git-url.ts"
import { hex } from "../lib/hmac.ts"
import { readLimitedText, readRequest, readRequestText } from "../lib/read-limited.ts"
import { adminRoutes } from "./api/admin-routes.ts"
import {
  type ApiCall,
  ApiError,
  type ApiParts,
  type Form,
  type Handler,
  MAX_ANSWER,
} from "./api/api-call.ts"
import { backendRoutes } from "./api/backend-routes.ts"
import { conversationRoutes } from "./api/conversation-routes.ts"
import { gatewayRoutes, MAX_FORM, tooMuchUploaded } from "./api/gateway-routes.ts"
import { sandboxRoutes } from "./api/sandbox-routes.ts"
import { redactError } from "./core/redact.ts"
import { isFleetPath, matchRoute, type RouteAccess, type RouteName } from "./core/routes.ts"
import { HubAway, HubRefusal } from "./hub-port.ts"
import type { StoredSession } from "./store/ports.ts"

export type Authorization =
  /** `owner`: whose sessions the caller means when its request names none. */
  | { readonly ok: true; readonly owner: string }
  | { readonly ok: false; readonly status: number; readonly message: string }

export interface DoorOptions extends ApiParts {
  /** Who calls, and whether the caller may do this. `session`: the one that the request is about. */
  readonly authorize: (
    request: Request,
    access: Exclude<RouteAccess, "open">,
    session: Pick<StoredSession, "id" | "tenant"> | undefined,
  ) => Promise<Authorization>
}

/** Undefined: the path is not the fleet's. */
export type Door = (request: Request) => Promise<Response | undefined>

const MAX_BODY = 8 * 1024 * 1024
const RETRY_SECONDS = 5
const CODES: Readonly<Record<number, string>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not-found",
  429: "too-many",
}
/** The body is a form with files, not text. */
const FORMS: readonly RouteName[] = ["upload"]

const digestOf = async (content: string | ArrayBuffer): Promise<string> =>
  hex(
    await crypto.subtle.digest(
      "SHA-256",
      typeof content === "string" ? new TextEncoder().encode(content) : content,
    ),
  )

const tooSlow = () =>
  new ApiError(408, "too-slow", "the body did not come to its end in time: send it again")

/** Files come over slow networks, too. */
const FORM_MS = 10 * 60_000

const readForm = async (request: Request): Promise<Form | undefined> => {
  const bytes = await readRequest(request, MAX_FORM, FORM_MS)
  if (bytes === 413) throw tooMuchUploaded()
  if (bytes === 408) throw tooSlow()
  const type = request.headers.get("content-type") ?? ""
  return new Response(bytes, { headers: { "content-type": type } })
    .formData()
    .catch(() => undefined)
}

/** What a form contains. A repeated request has the same parts with another boundary between them. */
const partsOf = async (form: Form | undefined): Promise<string> => {
  const parts: string[] = []
  for (const [field, value] of form?.entries() ?? []) {
    const content = typeof value === "string" ? value : await value.arrayBuffer()
    const name = typeof value === "string" ? "" : value.name
    parts.push(JSON.stringify([field, name, await digestOf(content)]))
  }
  return parts.join("\n")
}

export const createDoor = (options: DoorOptions): Door => {
  const { store, log, now } = options
  const handlers: Readonly<Record<RouteName, Handler>> = {
    ...sandboxRoutes(options),
    ...conversationRoutes(options),
    ...backendRoutes(options),
    ...gatewayRoutes(options),
    ...adminRoutes(options),
  }
  const noSession = (id: string) => new ApiError(404, "not-found", `there is no session ${id}`)

  const authorized = async (
    request: Request,
    access: RouteAccess,
    session: StoredSession | undefined,
  ): Promise<string> => {
    if (access === "open") return ""
    const result = await options.authorize(request, access, session)
    if (result.ok) return result.owner
    throw new ApiError(result.status, CODES[result.status] ?? "refused", result.message)
  }

  /** The session of the path. A caller without rights learns nothing about which sessions exist. */
  const sessionOf = async (request: Request, access: RouteAccess, id: string) => {
    const session = await store.find(id)
    const owner = await authorized(request, access, session).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 404) throw noSession(id)
      throw error
    })
    if (!session) throw noSession(id)
    return { session, owner }
  }

  const answer = async (request: Request, url: URL): Promise<Response> => {
    const route = matchRoute(request.method, url.pathname)
    if (!route)
      throw new ApiError(404, "not-found", `${request.method} ${url.pathname} does not exist`)
    const id = route.params["session"]
    const found =
      id === undefined
        ? { session: undefined, owner: await authorized(request, route.access, undefined) }
        : await sessionOf(request, route.access, id)
    const hasForm = FORMS.includes(route.name)
    const body =
      request.method === "POST" && !hasForm ? await readRequestText(request, MAX_BODY) : ""
    if (body === 413) throw new ApiError(413, "too-large", "the body may have 8 MB at most")
    if (body === 408) throw tooSlow()
    let form: Promise<Form | undefined> | undefined
    const call: ApiCall = {
      request,
      url,
      params: route.params,
      owner: found.owner,
      // Handlers of routes without a session in the path do not read it.
      session: found.session as StoredSession,
      body,
      form: () => (form ??= readForm(request)),
      mustPrompt: async (session) => (await sessionOf(request, "prompt", session)).session,
    }
    const run = async () => responseOf(await handlers[route.name](call))
    const key = request.method === "POST" ? request.headers.get("idempotency-key") : null
    if (key === null) return run()
    const content = hasForm ? await partsOf(await call.form()) : body
    return once(found.owner, key, `${url.pathname}${url.search}\n${content}`, run)
  }

  /** The first answer to this key again, also a failure; another request with the same key is refused. */
  const once = async (
    tenant: string,
    key: string,
    text: string,
    run: () => Promise<Response>,
  ): Promise<Response> => {
    if (!/^[\x21-\x7e]{1,200}$/.test(key))
      throw new ApiError(400, "bad-request", "Idempotency-Key: expected 1 to 200 printable letters")
    const known = await store.remember(tenant, key, await digestOf(text), now())
    if (known.is === "other")
      throw new ApiError(
        422,
        "key-reused",
        "this Idempotency-Key was used for another request: send a new one",
      )
    if (known.is === "running")
      throw new ApiError(
        409,
        "in-progress",
        "the first request with this key is still running: repeat it later",
        2,
      )
    if (known.is === "known")
      return new Response(known.body, {
        status: known.status,
        headers: { "content-type": "application/json", "idempotent-replay": "true" },
      })
    const response = await run().catch((error: unknown) => errorResponse(error))
    const { status, headers } = response
    const body = await readLimitedText(response, MAX_ANSWER)
    if (body === undefined) {
      // It was carried out, so a repeated request must not be. Its answer is all that is missing.
      const tooLong = errorResponse(
        new ApiError(
          502,
          "answer-too-long",
          "it was done, but the answer of the sandbox is too long",
        ),
      )
      await store.settle(tenant, key, tooLong.status, await tooLong.clone().text(), true)
      return tooLong
    }
    // What the server decided is kept. It may be better the next time, or the caller was asked to come back.
    const isDecided = status < 500 && !headers.has("retry-after")
    await store.settle(tenant, key, status, body, isDecided)
    return new Response(body, { status, headers })
  }

  const errorResponse = (error: unknown): Response => {
    const requestId = crypto.randomUUID()
    const reply = (status: number, code: string, message: string, retryAfter?: number) =>
      Response.json(
        { error: redactError(hideCredentials(message), []), code, requestId },
        {
          status,
          ...(retryAfter !== undefined && { headers: { "retry-after": String(retryAfter) } }),
        },
      )
    if (error instanceof ApiError)
      return reply(error.status, error.code, error.message, error.retryAfterSeconds)
    if (error instanceof HubRefusal) return reply(409, "refused-by-hub", error.message)
    if (error instanceof HubAway) {
      log.warn("fleet.hub-away", { requestId, error: redactError(error.message, []) })
      return reply(
        503,
        "hub-away",
        "the hub does not answer at the moment: try again",
        RETRY_SECONDS,
      )
    }
    log.error("fleet.request-failed", { requestId, error: redactError(String(error), []) })
    return reply(500, "failed", "the request failed; the log of the server has the reason")
  }

  return async (request) => {
    const url = new URL(request.url)
    if (!isFleetPath(url.pathname)) return undefined
    try {
      return await answer(request, url)
    } catch (error) {
      return errorResponse(error)
    }
  }
}

const responseOf = (result: object | Response): Response =>
  result instanceof Response ? result : Response.json(result)
