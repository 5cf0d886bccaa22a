/** Who may call the fleet's HTTP API: the principals and the one table of the hub. */
import type { Authorization, DoorOptions } from "../fleet/door.ts"
import { type Authentication, authenticate } from "../hub/access/authenticate.ts"
import { decide } from "../hub/access/may.ts"
import { LOCAL_OWNER, type Owner, parseOwner, type Target } from "../hub/access/ownership.ts"
import type { Principal } from "../hub/access/principal.ts"
import type { JwtVerifier } from "../hub/access/verify-jwt.ts"
import { limitAuthentication, type WrongSecrets } from "../hub/access/wrong-secrets.ts"
import { hashOf } from "../hub/keys.ts"

export interface FleetAccessOptions {
  readonly authenticate: (request: Request) => Promise<Authentication>
  /** Owner, members and ancestors of a session of this hub. */
  readonly targetOf: (session: string) => Target | undefined
}

/** The owner that a caller acts for. Only the operator may name another one: a service that serves many people. */
const ownerOf = (principal: Principal, request: Request): Owner | undefined => {
  if (principal.kind === "operator") {
    const user = request.headers.get("x-user-id")
    return user === null ? LOCAL_OWNER : parseOwner(`user:${user}`)
  }
  if (principal.kind !== "person") return undefined
  if (principal.sub !== undefined) return `user:${principal.sub}`
  return principal.org === undefined ? undefined : `org:${principal.org}`
}

export const fleetAccess =
  ({ authenticate: whoIs, targetOf }: FleetAccessOptions): DoorOptions["authorize"] =>
  async (request, access, session): Promise<Authorization> => {
    const who = await whoIs(request)
    if (!who.ok) return who
    const owner = ownerOf(who.principal, request)
    if (owner === undefined)
      return { ok: false, status: 400, message: "X-User-Id: not the id of a person" }
    const tenant = session && parseOwner(session.tenant)
    const ofSession =
      session && (targetOf(session.id) ?? (tenant && { id: session.id, owner: tenant }))
    const targets = {
      read: ofSession,
      prompt: ofSession,
      change: ofSession,
      service: { owner },
      observe: { owner },
      admin: { owner: LOCAL_OWNER },
    } as const satisfies Readonly<Record<typeof access, Target | undefined>>
    const target = targets[access]
    const decision = decide(who.principal, `fleet:${access}`, target)
    return decision.ok ? { ok: true, owner } : decision
  }

/** For a fleet without a hub in its process: the operator's token and JWTs. The hub's API keys are unknown here. */
export const tokensOnly =
  (
    operatorToken: string,
    verifyJwt: JwtVerifier | undefined,
    addressOf: (request: Request) => string | undefined,
    wrongSecrets: WrongSecrets,
  ) =>
  async (request: Request): Promise<Authentication> => {
    const none = { verify: async () => undefined }
    const token = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? ""
    const clientTokenHash = await hashOf(operatorToken)
    const ways = { clientTokenHash, verifyJwt, apiKeys: none, shareLinks: none }
    const who = await authenticate(ways, token, undefined)
    return limitAuthentication(wrongSecrets, addressOf(request), token, who)
  }
