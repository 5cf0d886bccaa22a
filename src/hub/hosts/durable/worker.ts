/** The worker: serves the page, and forwards each other request to the object that its route names. */
import { type BodyRefusal, readRequest } from "../../../lib/read-limited.ts"
import { isStorageFull } from "../../../lib/storage-full.ts"
import { findPageRoute } from "../../../lib/page/page-routes.ts"
import { preflightResponse, withCors } from "../../cors.ts"
import { errorResponse, storageFullResponse } from "../../http-responses.ts"
import { handlePage } from "../../page-door.ts"
import { routeOf } from "../../session/routes.ts"
import { durableChats } from "./chats.ts"
import { addressOf, countedInDirectory, originsOf } from "./environment.ts"
import { durablePage, withProtocol } from "./page.ts"
import { DIRECTORY_NAME } from "./remote-directory.ts"
import type { DurableEnvironment, DurableNamespace } from "./runtime-types.ts"
import { storeOfTrigger } from "./shared-store-object.ts"

export { Directory } from "./directory-object.ts"
export { SessionAgent } from "./session-object.ts"
export { SharedStore } from "./shared-store-object.ts"

const objectOf = (namespace: DurableNamespace, name: string) =>
  namespace.get(namespace.idFromName(name))

export default {
  fetch: async (request: Request, environment: DurableEnvironment): Promise<Response> => {
    const page = findPageRoute(new URL(request.url).pathname) && durablePage(environment)
    const allowed = originsOf(environment)
    const preflight = preflightResponse(request, allowed)
    if (preflight) return preflight
    if (!page) return forwardOrRefuse(request, environment)
    const response = await handlePage(
      page,
      request,
      async (inner, protocol) => withProtocol(await forwardOrRefuse(inner, environment), protocol),
      () => countedInDirectory(environment)(addressOf(request) ?? ""),
    )
    return response ?? new Response("", { status: 500 })
  },
}

/** An object that cannot store anything fails with an error of its storage. */
const forwardOrRefuse = async (
  request: Request,
  environment: DurableEnvironment,
): Promise<Response> => {
  try {
    return await forward(request, environment)
  } catch (error) {
    if (!isStorageFull(error)) throw error
    return withCors(storageFullResponse(), request, originsOf(environment))
  }
}

/** Of a body that is read before the object gets the request. */
const SMALL_BODY_BYTES = 64 * 1024

/**
 * The same request with its small body in memory. The runtime closes a connection whose request was answered before its body was
 * read, as a refusal is, and the client's next request on that connection would fail. A number is the status that refuses it.
 */
const withSmallBody = async (request: Request): Promise<Request | BodyRefusal> => {
  const length = request.headers.get("content-length")
  if (!request.body || length === null || Number(length) > SMALL_BODY_BYTES) return request
  const body = await readRequest(request, SMALL_BODY_BYTES)
  return typeof body === "number" ? body : new Request(request, { method: request.method, body })
}

const forward = async (given: Request, environment: DurableEnvironment): Promise<Response> => {
  const request = await withSmallBody(given)
  if (typeof request === "number")
    return withCors(
      errorResponse(request, "the body did not come to its end in time: send it again"),
      given,
      originsOf(environment),
    )
  const url = new URL(request.url)
  const route = routeOf(request.method, url.pathname, url.searchParams.get("role"))
  if (!route) return withCors(errorResponse(404, "no such route"), request, originsOf(environment))
  if ("session" in route) return objectOf(environment.SESSIONS, route.session).fetch(request)
  if (route.to === "health")
    return withCors(Response.json({ ok: true }), request, originsOf(environment))
  if (route.to === "chat") {
    const chat = durableChats(environment).find(route.chat)
    if (!chat) return new Response("no such route", { status: 404 })
    return objectOf(environment.SESSIONS, chat.session).fetch(request)
  }
  if (route.to === "hook")
    return objectOf(environment.SHARED_STORE, storeOfTrigger(route.trigger)).fetch(request)
  return objectOf(environment.DIRECTORY, DIRECTORY_NAME).fetch(request)
}
