/** The page beside the Durable Objects: its files are static assets of the worker, its logins are in the directory. */
import { z } from "zod"
import type { StoredPageLogins } from "../../access/stored-page-logins.ts"
import type { RemotePageLogins } from "../../../lib/page/page-logins.ts"
import type { HubPage } from "../../page-door.ts"
import { callObject, nothing } from "./object-calls.ts"
import { DIRECTORY_NAME } from "./remote-directory.ts"
import type { DurableEnvironment } from "./runtime-types.ts"

/** What the directory answers about logins. */
export const pageCalls = ({ redeem, begin, use, endAll }: StoredPageLogins) => ({
  pageRedeem: redeem,
  pageBegin: begin,
  pageUse: use,
  pageEndAll: endAll,
})

const newLogin = z
  .object({ cookie: z.string(), key: z.string(), maxAgeSeconds: z.number() })
  .nullable()
  .transform((login) => login ?? undefined)

const begunLogin = z.object({ maxAgeSeconds: z.number() })

const usedLogin = z
  .object({
    cookie: z.string(),
    renewSeconds: z.number().optional(),
    sealed: z.string().optional(),
  })
  .nullable()
  .transform(
    (login) =>
      login && { cookie: login.cookie, renewSeconds: login.renewSeconds, sealed: login.sealed },
  )
  .transform((login) => login ?? undefined)

const remoteLogins = ({ DIRECTORY }: DurableEnvironment): RemotePageLogins => ({
  redeem: (code) => callObject(DIRECTORY, DIRECTORY_NAME, newLogin, "pageRedeem", [code]),
  begin: (login) => callObject(DIRECTORY, DIRECTORY_NAME, begunLogin, "pageBegin", [login]),
  use: (cookies, key) =>
    callObject(DIRECTORY, DIRECTORY_NAME, usedLogin, "pageUse", [cookies, key]),
  endAll: (who) =>
    callObject(DIRECTORY, DIRECTORY_NAME, nothing, "pageEndAll", who === undefined ? [] : [who]),
})

/** Undefined without static assets, and without an operator, whose sessions the page shows. */
export const durablePage = (environment: DurableEnvironment): HubPage | undefined => {
  const { ASSETS, CLIENT_TOKEN, SANDBOX_ORIGINS = "" } = environment
  if (!ASSETS || !CLIENT_TOKEN) return undefined
  return {
    token: CLIENT_TOKEN,
    logins: remoteLogins(environment),
    frames: SANDBOX_ORIGINS.split(",")
      .map((origin) => origin.trim())
      .filter((origin) => origin !== ""),
    file: async (request, path) => {
      const { method, headers } = request
      const found = await ASSETS.fetch(
        new Request(new URL(`/${path}`, request.url).href, { method, headers }),
      )
      if (found.status === 404) return undefined
      const cached = path.startsWith("assets/") ? "public, max-age=31536000, immutable" : "no-cache"
      const answer = new Response(found.body, found)
      answer.headers.set("cache-control", cached)
      return answer
    },
  }
}

/** A WebSocket's answer names the protocol that was chosen of the browser's. */
export const withProtocol = (response: Response, protocol: string | undefined): Response => {
  if (protocol === undefined || response.status !== 101) return response
  const { webSocket } = response as Response & { readonly webSocket?: unknown }
  return new Response(null, {
    status: 101,
    headers: { "sec-websocket-protocol": protocol },
    webSocket,
  } as ResponseInit)
}
