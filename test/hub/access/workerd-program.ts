/** A worker that runs the stores, JWTs and encryption of access in a Durable Object; it responds with what it found. */
import { createApiKeys } from "../../../src/hub/access/api-keys.ts"
import { createAudit } from "../../../src/hub/access/audit.ts"
import { authenticate } from "../../../src/hub/access/authenticate.ts"
import { readKeyring } from "../../../src/hub/access/encrypt.ts"
import { makeGatewayLink, parseDestination } from "../../../src/hub/access/gateway-links.ts"
import { may } from "../../../src/hub/access/may.ts"
import { createMembers } from "../../../src/hub/access/members.ts"
import { operator } from "../../../src/hub/access/principal.ts"
import { createSessionIndex } from "../../../src/hub/access/session-index.ts"
import { createShareLinks } from "../../../src/hub/access/share-links.ts"
import { createJwtVerifier } from "../../../src/hub/access/verify-jwt.ts"
import { durableSql } from "../../../src/hub/hosts/durable/sql.ts"
import type {
  DurableNamespace,
  DurableState,
} from "../../../src/hub/hosts/durable/runtime-types.ts"

export interface AccessRequest {
  readonly secret: string
  readonly secretToken: string
  readonly jwksUrl: string
  readonly keySetToken: string
  readonly issuer: string
  readonly audience: string
}

export class AccessObject {
  readonly #state: DurableState

  constructor(state: DurableState) {
    this.#state = state
  }

  async fetch(request: Request): Promise<Response> {
    const asked = (await request.json()) as AccessRequest
    const sql = durableSql(this.#state)
    const now = () => Date.now()
    const apiKeys = createApiKeys(sql, now)
    const shareLinks = createShareLinks(sql, now)
    const members = createMembers(sql, now)
    const audit = createAudit(sql, now)
    const index = createSessionIndex(sql, now)
    index.add("s1", "user:alice")
    index.setMembers("s1", ["vera"])
    index.update("s1", { title: "first", dollars: 0.5 })
    const ports = { now, fetch: (url: string, init: RequestInit) => fetch(url, init) }
    const options = { clientTokenHash: undefined, verifyJwt: undefined, apiKeys, shareLinks }

    const { key, row } = await apiKeys.create({
      owner: "user:alice",
      name: "k",
      scopes: ["sessions:read"],
    })
    const byKey = await authenticate(options, key, undefined)
    const target = { id: "s1", owner: "user:alice" } as const
    const reads = byKey.ok && may(byKey.principal, "route:snapshot", target)
    const writes = byKey.ok && may(byKey.principal, "verb:prompt", target)
    const revoked = apiKeys.revoke("user:alice", row.prefix).length > 0
    const { token, link } = await shareLinks.create("s1", "viewer", 60_000, "user:alice")
    const byLink = await shareLinks.verify("s1", token)
    shareLinks.revoke("s1", link.id)
    members.set("s1", "vera", "viewer", "user:alice")
    audit.append({ owner: "user:alice", principal: operator, action: "verb:prompt" })
    const place = { owner: "user:alice", session: "s1", field: "config" }
    const keyring = readKeyring(btoa("k".repeat(32)))
    const bySecret = createJwtVerifier({ secret: asked.secret }, ports)
    const byKeySet = createJwtVerifier(
      { jwksUrl: asked.jwksUrl, issuer: asked.issuer, audience: asked.audience },
      ports,
    )
    const destination = parseDestination("vscode")
    return Response.json({
      reads,
      writes,
      revoked,
      afterRevocation: (await authenticate(options, key, undefined)).ok,
      linkRole: byLink?.role,
      linkAfterRevocation: (await shareLinks.verify("s1", token)) !== undefined,
      members: members.of("s1"),
      listed: index.list({ owners: [], sub: "vera", search: "FIR" }).sessions.map(({ id }) => id),
      totals: index.totals("user:alice"),
      audited: audit.list("user:alice").entries.length > 0,
      auditDeleted: deletes(() => sql.run("DELETE FROM audit")),
      decrypted: keyring.decrypt(place, keyring.encrypt(place, "secret")),
      bySecret: (await bySecret?.(asked.secretToken))?.ok,
      byKeySet: (await byKeySet?.(asked.keySetToken))?.ok,
      crossed: [
        (await bySecret?.(asked.keySetToken))?.ok,
        (await byKeySet?.(asked.secretToken))?.ok,
      ],
      link:
        destination &&
        (
          await makeGatewayLink({
            gatewayUrl: "https://box.test",
            to: destination,
            session: "s1",
            sub: "alice",
            key: "k".repeat(64),
            now: now(),
            jti: "j",
          })
        ).url.slice(0, 32),
    })
  }
}

const deletes = (work: () => void): boolean => {
  try {
    work()
    return true
  } catch {
    return false
  }
}

export default {
  fetch: (request: Request, { OBJECT }: { OBJECT: DurableNamespace }): Promise<Response> =>
    OBJECT.get(OBJECT.idFromName("one")).fetch(request),
}
