/** Routes about an owner as a whole: its sessions, API keys, audit log, budget and limits. */
import { z } from "zod"
import { ownerSettings, readerOf } from "./access/directory.ts"
import type { Sender } from "./access/guarded-clients.ts"
import { actionOfRoute, decide, mayGrant } from "./access/may.ts"
import { type Owner, ownersOf, parseOwner } from "./access/ownership.ts"
import type { Principal } from "./access/principal.ts"
import { allScopes, knownScopes } from "./access/scopes.ts"
import { LOCAL_OWNER } from "./access/session-access.ts"
import { isAudited } from "./access/table.ts"
import type { HttpApiHost } from "./http-api.ts"
import { errorResponse, parseBody } from "./http-responses.ts"
import { handlePersonaRoute, isPersonaRoute } from "./persona-routes.ts"
import { createSession } from "./provision.ts"
import type { Route } from "./session/routes.ts"

type OwnerRoute = Exclude<
  Route,
  { readonly session: string } | { readonly to: "health" | "hook" | "chat" }
>

const MAX_NAME = 100

const keyBody = z.object({
  name: z.string().min(1).max(MAX_NAME).default("API key"),
  scopes: z
    .array(z.string())
    .min(1)
    .refine(
      (names) => knownScopes(names).length === new Set(names).size,
      `expected some of ${allScopes.join(", ")}`,
    ),
  expiresAt: z.int().positive().optional(),
})

export const handleOwnerRoute = async (
  host: HttpApiHost,
  route: OwnerRoute,
  request: Request,
  url: URL,
  sender: Sender,
): Promise<Response> => {
  const { principal, from } = sender
  const owner = ownerOf(route, url, principal)
  const action = actionOfRoute(route, true)
  if (owner === undefined || action === undefined) return missing()
  const decision = decide(principal, action, { owner })
  if (!decision.ok) {
    return decision.status === 404 ? missing() : errorResponse(decision.status, decision.message)
  }
  const audit = () => host.directory.appendAudit({ owner, principal, action, from })
  // The entry of a new session names the session, so it is written where the id is made.
  if (isAudited(action) && route.to !== "create") await audit()
  if (isPersonaRoute(route)) return handlePersonaRoute(host, owner, route, request)
  switch (route.to) {
    case "list":
    case "search":
      return listSessions(host, url, principal)
    case "create":
      return createSession(host, owner, request, sender)
    case "keys-list":
      return Response.json({ ok: true, keys: await host.directory.listKeys(owner) })
    case "keys-create": {
      const body = await parseBody(request, keyBody)
      if (body instanceof Response) return body
      const { name, scopes, expiresAt } = body.data
      const granted = knownScopes(scopes)
      if (!mayGrant(principal, granted))
        return errorResponse(
          403,
          "scopes: a key cannot have a scope that its creator does not have",
        )
      const made = await host.directory.createKey({
        owner,
        name,
        scopes: granted,
        ...(expiresAt !== undefined && { expiresAt }),
      })
      return Response.json({ ok: true, ...made }, { status: 201 })
    }
    case "keys-revoke": {
      if (!(await host.directory.revokeKey(owner, route.prefix)))
        return errorResponse(404, `key ${route.prefix} does not exist`)
      await host.keyRevoked(owner, route.prefix)
      return Response.json({ ok: true })
    }
    case "keys-rotate":
      return Response.json({ ok: true, sessions: await host.rotateKeys() })
    case "audit": {
      const cursor = numberOf(url, "cursor")
      return Response.json({
        ok: true,
        ...(await host.directory.listAudit(owner, cursor, numberOf(url, "limit"))),
      })
    }
    case "owner-budget-set": {
      const body = await parseBody(request, ownerSettings)
      if (body instanceof Response) return body
      const account = await host.directory.setOwnerSettings(owner, body.data)
      await host.ownerChanged(owner, account)
      return Response.json({ ok: true, ...account })
    }
  }
}

const missing = () => errorResponse(404, "there is nothing here")

/** The owner that a request is about: the one that it names, or the caller's own. */
const ownerOf = (route: OwnerRoute, url: URL, principal: Principal): Owner | undefined => {
  const given = "owner" in route ? route.owner : url.searchParams.get("owner")
  if (given !== null) return parseOwner(given)
  const own = ownersOf(principal)
  return own === "all" ? LOCAL_OWNER : own[0]
}

const listSessions = async (
  host: HttpApiHost,
  url: URL,
  principal: Principal,
): Promise<Response> => {
  const given = parseOwner(url.searchParams.get("owner") ?? "")
  const sub = principal.kind === "person" ? principal.sub : undefined
  const { sessions, next } = await host.directory.listSessions(
    {
      owners: given === undefined ? ownersOf(principal) : [given],
      ...(given === undefined && sub !== undefined && { sub }),
      search: url.searchParams.get("search") ?? url.searchParams.get("q") ?? undefined,
      cursor: url.searchParams.get("cursor") ?? undefined,
      limit: numberOf(url, "limit"),
    },
    readerOf(principal),
  )
  return Response.json({
    ok: true,
    sessions: sessions.map((row) => ({ ...host.liveStatus(row.id), ...row })),
    ...(next !== undefined && { next }),
  })
}

const numberOf = (url: URL, name: string): number | undefined => {
  const text = url.searchParams.get(name) ?? ""
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined
}
