/** Routes about an owner as a whole: its sessions, API keys, audit log, budget and limits. */
import { z } from "zod"
import type { ListedSession } from "../wire/clients/lobby.ts"
import { modelId } from "../wire/frames/shapes.ts"
import { type ListedSession as IndexedRow, ownerSettings, readerOf } from "./access/directory.ts"
import type { Sender } from "./access/guarded-clients.ts"
import { actionOfRoute, decide, may, mayGrant } from "./access/may.ts"
import { LOCAL_OWNER, type Owner, ownersOf, parseOwner } from "./access/ownership.ts"
import type { Principal } from "./access/principal.ts"
import { allScopes, knownScopes } from "./access/scopes.ts"
import { isAudited } from "./access/table.ts"
import type { HttpApiHost } from "./http-api.ts"
import { errorResponse, isUpgrade, notUpgrade, parseBody } from "./http-responses.ts"
import { handlePersonaRoute, isPersonaRoute } from "./persona-routes.ts"
import { workspaces } from "./local-sessions-port.ts"
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
): Promise<Response | undefined> => {
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
      return Response.json({
        ok: true,
        ...(await listSessions(host, url, principal)),
        ...(await newSessionFields(host, owner, principal)),
      })
    case "search":
      return searchSessions(host, url, principal)
    case "lobby":
      return isUpgrade(request) ? host.upgradeLobby(request, sender) : notUpgrade()
    case "login-link": {
      const link = await host.loginLink(url)
      if (!link) return errorResponse(404, "this hub serves no page")
      return Response.json({ ok: true, ...link }, { status: 201 })
    }
    case "create":
      return createSession(host, owner, request, sender)
    case "default-model":
      return setDefaultModel(host, owner, request)
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
      const by = principal.kind === "person" && principal.key !== undefined ? principal : undefined
      if (by?.expiresAt !== undefined && expiresAt !== undefined && expiresAt > by.expiresAt)
        return errorResponse(403, "expiresAt: a key cannot outlive the key that makes it")
      const until = expiresAt ?? by?.expiresAt
      const made = await host.directory.createKey({
        owner,
        name,
        scopes: granted,
        ...(until !== undefined && { expiresAt: until }),
        ...(by?.key !== undefined && { madeBy: by.key }),
      })
      return Response.json({ ok: true, ...made }, { status: 201 })
    }
    case "keys-revoke": {
      const revoked = await host.directory.revokeKey(owner, route.prefix)
      if (revoked.length === 0) return errorResponse(404, `key ${route.prefix} does not exist`)
      for (const prefix of revoked) await host.keyRevoked(owner, prefix)
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

/** What a client needs to know to offer new sessions. */
const newSessionFields = async (host: HttpApiHost, owner: Owner, principal: Principal) => {
  const mayCreate = may(principal, "route:create", { owner })
  const model = await host.directory.ownerModel(owner)
  return {
    ...(mayCreate && host.startsSandboxes && { mayCreate: true }),
    ...(mayCreate && host.localSessions?.isFor(owner) && { workspaces }),
    ...(model !== null && { defaultModel: model }),
    ...(may(principal, "route:default-model", { owner }) && { maySetModel: true }),
  }
}

const modelBody = z.object({ model: modelId.nullable() })

const setDefaultModel = async (
  host: HttpApiHost,
  owner: Owner,
  request: Request,
): Promise<Response> => {
  const body = await parseBody(request, modelBody)
  if (body instanceof Response) return body
  const { model } = body.data
  if ((await host.directory.ownerModel(owner)) !== model)
    await host.ownerChanged(owner, await host.directory.setOwnerModel(owner, model))
  return Response.json({ ok: true, model })
}

const missing = () => errorResponse(404, "the owner or the route does not exist")

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
): Promise<{ readonly sessions: readonly ListedSession[]; readonly next?: string }> => {
  const given = parseOwner(url.searchParams.get("owner") ?? "")
  const sub = principal.kind === "person" ? principal.sub : undefined
  const { sessions, next } = await host.directory.listSessions(
    {
      owners: given === undefined ? ownersOf(principal) : [given],
      ...(given === undefined && sub !== undefined && { sub }),
      search: url.searchParams.get("search") ?? undefined,
      cursor: url.searchParams.get("cursor") ?? undefined,
      limit: numberOf(url, "limit"),
    },
    readerOf(principal),
  )
  return {
    sessions: sessions.map((row) => sessionRow(host, row)),
    ...(next !== undefined && { next }),
  }
}

/** How many sessions a search reads, the last active ones; and how many hits it returns. */
const SEARCHED_SESSIONS = 50
const MOST_HITS = 50

/** Sessions by their title, and messages of the last active sessions by their text. */
const searchSessions = async (
  host: HttpApiHost,
  url: URL,
  principal: Principal,
): Promise<Response> => {
  const query = url.searchParams.get("q")?.slice(0, 200) ?? ""
  if (query === "") return errorResponse(400, "q: expected the text to search for")
  const byTitle = new URL(url)
  byTitle.searchParams.set("search", query)
  const named = await listSessions(host, byTitle, principal)
  const recent = new URL(url)
  recent.searchParams.delete("cursor")
  recent.searchParams.set("limit", String(SEARCHED_SESSIONS))
  const read = (await listSessions(host, recent, principal)).sessions
  const found = await Promise.allSettled(
    read.map(async ({ id }) => ({ id, result: await host.search(id, query, MOST_HITS) })),
  )
  // A session that cannot be reached must not keep the others from being searched.
  const hits = found
    .flatMap((one) => (one.status === "fulfilled" ? [one.value] : []))
    .flatMap(({ id, result }) => (result?.hits ?? []).map((hit) => ({ session: id, ...hit })))
    .toSorted((one, other) => other.at - one.at)
  const more = hits.length > MOST_HITS
  return Response.json({ ok: true, ...named, hits: hits.slice(0, MOST_HITS), more })
}

/** The newest sessions of a principal, as the lobby shows them. */
export const readLobby = async (
  host: Pick<HttpApiHost, "directory" | "liveStatus">,
  principal: Principal,
): Promise<readonly ListedSession[]> => {
  const sub = principal.kind === "person" ? principal.sub : undefined
  const { sessions } = await host.directory.listSessions(
    { owners: ownersOf(principal), ...(sub !== undefined && { sub }), limit: LOBBY_SESSIONS },
    readerOf(principal),
  )
  return sessions.map((row) => sessionRow(host, row))
}

const LOBBY_SESSIONS = 200

const sessionRow = (
  host: Pick<HttpApiHost, "liveStatus">,
  { live, ...row }: IndexedRow,
): ListedSession => ({ ...live, ...host.liveStatus(row.id), ...row })

const numberOf = (url: URL, name: string): number | undefined => {
  const text = url.searchParams.get(name) ?? ""
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined
}
