/** The worker: serves the page, and forwards each other request to the object that its route names. */
import { isStorageFull } from "../../../lib/storage-full.ts"
import { findPageRoute } from "../../../lib/page/page-routes.ts"
import { preflightResponse, withCors } from "../../cors.ts"
import { errorResponse, storageFullResponse } from "../../http-responses.ts"
import { handlePage } from "../../page-door.ts"
import { routeOf } from "../../session/routes.ts"
import { durableChats } from "./chats.ts"
import { addressOf, countedInDirectory, originsOf } from "./environment.ts"
import { withEarlyBody } from "./early-body.ts"
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

const forward = async (given: Request, environment: DurableEnvironment): Promise<Response> => {
  const request = await withEarlyBody(given)
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
