/** What the hub's HTTP API needs of a session's object. Routes of an owner are served by the directory's object. */
import { handOver } from "../../access/hand-over.ts"
import { POOL_OWNER } from "../../access/ownership.ts"
import { receiveChat } from "../../adapters/receive-chat.ts"
import { eventStream } from "../../connections.ts"
import type { HttpApiHost } from "../../http-api.ts"
import { gatewayKey } from "../../keys.ts"
import { callerChecks } from "./environment.ts"
import { type FleetCallHost, handleFleetCall } from "./fleet.ts"
import type { ObjectContext } from "./object-context.ts"
import type { WorkersGlobals } from "./runtime-types.ts"
import { durableSql } from "./sql.ts"

const workers = globalThis as unknown as WorkersGlobals

const notHere = () => {
  throw new Error("this route belongs to the directory")
}

export const sessionHttpHost = async (context: ObjectContext): Promise<HttpApiHost> => {
  const { environment, sockets, blobs, chats, checkConnections } = context
  const hosted = context.hosted
  return {
    ...(await callerChecks(environment)),
    ...context.guardPorts,
    verifyJwt: context.verifyJwt,
    find: hosted,
    provision: context.provision,
    liveStatus: () => undefined,
    fleet: (session, call, request) => handleFleetCall(fleetHost(context, session), call, request),
    artifact: async (_session, id) => {
      const mime = hosted()?.session.artifactType(id)
      if (mime === undefined) return undefined
      const { objects } = context
      return blobs.find(id) ?? (objects && { mime, body: await objects.get(id) })
    },
    hook: async () => new Response("", { status: 404 }),
    chat: async (type, request) => {
      const chat = chats.find(type)
      if (!chat) return new Response("", { status: 404 })
      return receiveChat(chat, request, () => hosted()?.session)
    },
    upgrade: (_request, _session, sender) => {
      const pair = new workers.WebSocketPair()
      const id = sockets.accept(pair[1], sender)
      if (!sender) hosted()?.session.runner.opened(id)
      else if (sender.principal.expiresAt !== undefined) checkConnections()
      return new Response(null, { status: 101, webSocket: pair[0] } as ResponseInit)
    },
    stream: (_session, { principal }, begin) => {
      const response = eventStream(sockets.streams, crypto.randomUUID(), principal, begin)
      checkConnections()
      return response
    },
    checkConnections,
    upgradeLobby: notHere,
    search: notHere,
    loginLink: notHere,
    keyRevoked: notHere,
    ownerChanged: notHere,
    rotateKeys: notHere,
    listPersonas: notHere,
    putPersona: notHere,
    removePersona: notHere,
  }
}

const fleetHost = (context: ObjectContext, session: string): FleetCallHost => {
  const { state, environment, directory, hosted, provision } = context
  return {
    environment,
    sql: durableSql(state),
    session,
    find: hosted,
    create: async (owner) => {
      if (hosted()) return
      await directory.addSession(session, owner)
      await provision(session, owner, {})
    },
    reserve: async () => {
      if (!hosted()) await provision(session, POOL_OWNER, {})
    },
    handOver: async (owner, creator) => {
      const found = hosted()
      if (!found) return `there is no session ${session}`
      const keyring = context.keyring()
      const refusal = handOver({ ...found, sql: durableSql(state), keyring }, owner, creator)
      if (refusal === undefined) await directory.addSession(session, owner)
      return refusal
    },
    end: (why) => context.end(why),
    gatewayKey: async (generation) => {
      const { HUB_GATEWAY_SECRET: secret } = environment
      return secret ? gatewayKey(secret, session, generation) : undefined
    },
  }
}
