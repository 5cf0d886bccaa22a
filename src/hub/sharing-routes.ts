/** Routes about one session that share it: members, share links, links to the sandbox's gateway, the budget. */
import { z } from "zod"
import { budgetSchema } from "./access/budgets.ts"
import { parseDestination } from "./access/gateway-links.ts"
import type { HostedSession, Sender } from "./access/guarded-clients.ts"
import { makeControlToken, openLink } from "./access/open-link.ts"
import { isIdentifier, roles } from "./access/ownership.ts"
import { nameOf, type Principal } from "./access/principal.ts"
import type { HttpApiHost } from "./http-api.ts"
import { errorResponse, parseBody, refusalStatuses } from "./http-responses.ts"
import type { Route, SharingRoute } from "./session/routes.ts"

const sharing: Readonly<Record<SharingRoute["to"], true>> = {
  links: true,
  "control-tokens": true,
  "members-list": true,
  "members-set": true,
  "members-remove": true,
  "share-links-list": true,
  "share-links-create": true,
  "share-links-revoke": true,
  "budget-read": true,
  "budget-set": true,
}

export const isSharingRoute = (route: Route): route is SharingRoute =>
  Object.hasOwn(sharing, route.to)

const roleBody = z.object({ role: z.enum(roles) })
const linkBody = z.object({ to: z.string() })
const MONTH_SECONDS = 30 * 24 * 60 * 60
const shareBody = z.object({
  role: z.enum(["viewer", "editor"]),
  lifetimeSeconds: z.int().min(1).max(MONTH_SECONDS).default(86_400),
})

/** The caller has been allowed. */
export const handleSharingRoute = async (
  host: HttpApiHost,
  hosted: HostedSession,
  route: SharingRoute,
  request: Request,
  sender: Sender,
): Promise<Response> => {
  const { id, session, access } = hosted
  const { members, shareLinks } = access
  const by = nameOf(sender.principal)
  switch (route.to) {
    case "members-list":
      return Response.json({ ok: true, owner: access.owner(), members: members.of(id) })
    case "members-set": {
      const body = await parseBody(request, roleBody)
      if (body instanceof Response) return body
      if (!isIdentifier(route.sub))
        return errorResponse(400, "sub: expected 1 to 255 printable ASCII characters")
      members.set(id, route.sub, body.data.role, by)
      await membersChanged(host, hosted)
      return Response.json({ ok: true })
    }
    case "members-remove": {
      if (!members.remove(id, route.sub))
        return errorResponse(404, `member ${route.sub} does not exist`)
      await membersChanged(host, hosted)
      return Response.json({ ok: true })
    }
    case "share-links-list":
      return Response.json({ ok: true, links: shareLinks.list(id) })
    case "share-links-create": {
      const body = await parseBody(request, shareBody)
      if (body instanceof Response) return body
      const { role, lifetimeSeconds } = body.data
      // A link does not outlive the API key that makes it.
      const latest = expiryOfKey(sender.principal)
      const made = await shareLinks.create(id, role, lifetimeSeconds * 1000, by, latest)
      return Response.json({ ok: true, ...made }, { status: 201 })
    }
    case "share-links-revoke": {
      if (!shareLinks.revoke(id, route.link))
        return errorResponse(404, `share link ${route.link} does not exist`)
      host.checkConnections(id)
      return Response.json({ ok: true })
    }
    case "budget-read":
      return Response.json({ ok: true, ...session.budget() })
    case "budget-set": {
      const body = await parseBody(request, budgetSchema)
      if (body instanceof Response) return body
      session.setBudget(body.data)
      return Response.json({ ok: true, ...session.budget() })
    }
    case "links":
      return makeLink(host, hosted, request, by)
    case "control-tokens": {
      const made = await makeControlToken(host, hosted)
      return made.ok
        ? Response.json(made, { status: 201, headers: { "cache-control": "no-store" } })
        : errorResponse(refusalStatuses[made.code], made.message)
    }
  }
}

const expiryOfKey = (principal: Principal): number | undefined =>
  principal.kind === "person" && principal.key !== undefined ? principal.expiresAt : undefined

const membersChanged = async (host: HttpApiHost, { id, access }: HostedSession): Promise<void> => {
  // Connections first: a removed member must stop receiving even if the directory cannot be reached.
  host.checkConnections(id)
  await host.directory.setMembers(
    id,
    access.members.of(id).map(({ sub }) => sub),
  )
}

const makeLink = async (
  host: HttpApiHost,
  hosted: HostedSession,
  request: Request,
  sub: string,
): Promise<Response> => {
  const body = await parseBody(request, linkBody)
  if (body instanceof Response) return body
  const to = parseDestination(body.data.to)
  if (!to) return errorResponse(400, "to: expected vscode, vnc, terminal or tunnel:<name>")
  const link = await openLink(host, hosted, to, sub)
  return link.ok
    ? Response.json(link, { status: 201 })
    : errorResponse(refusalStatuses[link.code], link.message)
}
