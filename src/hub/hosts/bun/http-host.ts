/** What the hub's HTTP API needs of the Bun host, made for each request. */
import type { Server } from "bun"
import { ACCESS_ENDED } from "../../access/close-connections.ts"
import type { GuardPorts } from "../../access/guarded-clients.ts"
import type { JwtVerifier } from "../../access/verify-jwt.ts"
import { receiveChat } from "../../adapters/receive-chat.ts"
import { createConnections, eventStream } from "../../connections.ts"
import type { HttpApiHost } from "../../http-api.ts"
import type { Lobby } from "../../lobby.ts"
import { LOGIN_CODE_MS } from "../../page-login-state.ts"
import type { HostKeyring } from "./host-keyring.ts"
import type { HubOptions } from "./hub-options.ts"
import type { Sessions } from "./sessions.ts"
import type { WrongSecrets } from "../../access/wrong-secrets.ts"
import type { HttpGuard } from "../../../lib/http-guard.ts"
import { type SocketData, upgradeRequest } from "./sockets.ts"

export interface HttpHostOptions {
  readonly hub: HubOptions
  readonly sessions: Sessions
  readonly lobby: Lobby
  readonly guardPorts: GuardPorts
  readonly keyring: HostKeyring
  readonly verifyJwt: JwtVerifier | undefined
  readonly clientTokenHash: string
  readonly wrongSecrets: WrongSecrets
  readonly guard: HttpGuard
  readonly provision: HttpApiHost["provision"]
}

/** The browser's request, and the subprotocol of its WebSocket, when the page has made another request of it. */
export interface PageRequest {
  readonly original: Request
  readonly protocol: string | undefined
}

export const httpHostOf = (
  {
    hub,
    sessions,
    lobby,
    guardPorts,
    keyring,
    verifyJwt,
    clientTokenHash,
    wrongSecrets,
    guard,
    provision,
  }: HttpHostOptions,
  server: Server<SocketData>,
  page?: PageRequest,
): HttpApiHost => {
  const { find, checkConnections } = sessions
  return {
    ...guardPorts,
    clientTokenHash,
    verifyJwt,
    wrongSecrets,
    allowedOrigins: hub.allowedOrigins ?? [],
    find,
    provision,
    listPersonas: (owner) => hub.personas?.(owner).list() ?? [],
    putPersona: (owner, persona) => hub.personas?.(owner).put(persona) ?? false,
    removePersona: (owner, slug) => hub.personas?.(owner).remove(slug) ?? false,
    startsSandboxes: hub.activity !== undefined,
    warmSessions: hub.warmSessions,
    localSessions: hub.localSessions?.(),
    liveStatus: (id) => find(id)?.session.live(),
    search: async (id, query, limit) => find(id)?.session.search(query, limit),
    from: (request) => guard.addressOf(page?.original ?? request),
    loginLink: async () =>
      hub.page && {
        url: hub.page.newLink(server.port ?? 0),
        expiresAt: guardPorts.now() + LOGIN_CODE_MS,
      },
    checkConnections,
    keyRevoked: async (_owner, prefix) => {
      lobby.keyRevoked(prefix)
      for (const { id: session, connections, access } of sessions.all()) {
        access.shareLinks.revokeMadeBy(session, prefix)
        checkConnections(session)
        for (const { id, principal } of connections.people()) {
          if (principal.kind === "person" && principal.key === prefix)
            connections.close(id, ...ACCESS_ENDED)
        }
      }
    },
    ownerChanged: async (owner, account) => {
      for (const { access, session } of sessions.all())
        if (access.owner() === owner) session.setOwnerAccount(account)
    },
    rotateKeys: () =>
      keyring.rotate(async () => {
        const all = sessions.all()
        for (const { session } of all) session.configure({})
        return all.length
      }),
    hook: hub.hook,
    chat: async (type, request) => {
      const chat = hub.chats?.find(type)
      if (!chat) return new Response("", { status: 404 })
      return receiveChat(chat, request, (id) => find(id)?.session)
    },
    artifact: async (session, id) => find(session)?.artifact(id),
    upgrade: (request, session, sender) =>
      upgradeRequest(server, page?.original ?? request, { session, sender }, page?.protocol),
    upgradeLobby: (request, sender) =>
      upgradeRequest(
        server,
        page?.original ?? request,
        { session: undefined, sender },
        page?.protocol,
      ),
    stream: (session, { principal }, begin) => {
      const connections = find(session)?.connections ?? createConnections()
      const response = eventStream(connections, crypto.randomUUID(), principal, begin)
      checkConnections(session)
      return response
    },
  }
}
