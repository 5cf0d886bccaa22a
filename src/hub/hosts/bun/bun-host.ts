/** Hosts sessions on one machine: each is a SQLite file in the state directory; one loopback server serves them all. */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { isLoopback } from "../../../lib/git-url.ts"
import { listenOnLoopback } from "../../../lib/loopback-listeners.ts"
import { createAttempts } from "../../../lib/failed-attempts.ts"
import { createHttpGuard, IDLE_SECONDS } from "../../../lib/http-guard.ts"
import { createDirectory } from "../../access/directory.ts"
import type { GuardPorts } from "../../access/guarded-clients.ts"
import { createJwtVerifier } from "../../access/verify-jwt.ts"
import { watchDirectory } from "../../access/watch-directory.ts"
import { authenticateRequest, handleRequest } from "../../http-api.ts"
import { hashOf } from "../../keys.ts"
import { createLobby } from "../../lobby.ts"
import { readLobby } from "../../owner-routes.ts"
import { handlePage } from "../../page-door.ts"
import { applyProvision } from "../../provision.ts"
import { createFailures } from "./failures.ts"
import { openHostKeyring } from "./host-keyring.ts"
import { httpHostOf, type PageRequest } from "./http-host.ts"
import type { Hub, HubOptions } from "./hub-options.ts"
import { createSessions } from "./sessions.ts"
import { createSockets, type SocketData } from "./sockets.ts"
import { openBunSql } from "./sql.ts"

export const startHub = async (options: HubOptions): Promise<Hub> => {
  const { clock, log } = options
  const folder = join(options.stateDir, "hub")
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  let stopped = false
  const isStopped = () => stopped
  const accessSql = openBunSql(join(folder, "access.db"))
  const directory = watchDirectory(createDirectory(accessSql, clock.now), () => lobby.changed())
  const lobby = createLobby({
    list: (principal) =>
      readLobby({ directory, liveStatus: (id) => sessions.find(id)?.session.live() }, principal),
    now: clock.now,
    later: (ms, run) => clock.after(ms, () => (stopped ? undefined : run())),
    failed: (error) => log.warn("hub.lobby-failed", { error: String(error) }),
  })
  const keyring = openHostKeyring(options.encryptionKey, join(folder, "encryption.key"))
  const verifyJwt = createJwtVerifier(options.jwt ?? {}, { now: clock.now, fetch })
  const sessions = createSessions({
    hub: options,
    folder,
    directory,
    keyring,
    publish: (session, text) => {
      for (const one of servers) one.publish(session, text)
    },
    isStopped,
  })

  const clientTokenHash = await hashOf(options.clientToken)
  const guardPorts: GuardPorts = {
    directory,
    now: clock.now,
    gatewayKey: async ({ id, session }) => options.gatewayKey?.(id, session.generation()),
    gatewayUrl: async ({ id }) => options.gatewayUrl?.(id),
    terminate: options.terminate,
  }
  const provision: Hub["provision"] = async (id, owner, fields) => {
    await applyProvision(sessions.create(id, owner, fields.ancestors, fields.creator), fields)
    if (fields.handle !== undefined) options.setHandle?.(owner, fields.handle, id)
  }
  const httpHost = (self: Bun.Server<SocketData>, page?: PageRequest) =>
    httpHostOf(
      {
        hub: options,
        sessions,
        lobby,
        guardPorts,
        keyring,
        verifyJwt,
        clientTokenHash,
        wrongSecrets,
        guard,
        provision,
      },
      self,
      page,
    )
  const guard = createHttpGuard()
  const wrongSecrets = options.wrongSecrets ?? createAttempts(clock.now).failed
  const answer = async (self: Bun.Server<SocketData>, request: Request) => {
    // Only loopback and configured host names: a website that resolves its own name to 127.0.0.1 (DNS rebinding) is refused.
    // A chat service calls through a proxy with a public name; its adapter checks the signature.
    const { hostname, pathname } = new URL(request.url)
    if (options.page?.host === hostname)
      return handlePage(
        options.page,
        request,
        (inner, protocol) => handleRequest(httpHost(self, { original: request, protocol }), inner),
        () => wrongSecrets(guard.addressOf(request) ?? ""),
      )
    const isOwn = isLoopback(hostname) || options.names?.includes(hostname) === true
    if (!isOwn && !pathname.startsWith("/channels/")) return new Response("", { status: 421 })
    return (await options.routes?.(request)) ?? handleRequest(httpHost(self), request)
  }
  const failures = createFailures(log, clock)
  const websocket = createSockets({ sessions, lobby, guardPorts, failures, isStopped, log })
  const listen = (address: string, at: number) =>
    Bun.serve<SocketData>({
      hostname: address,
      port: at,
      idleTimeout: IDLE_SECONDS,
      fetch: (request, self) => guard.handle(self, request, (guarded) => answer(self, guarded)),
      error: failures.response,
      websocket,
    })
  const servers = listenOnLoopback(options.hostname ?? "127.0.0.1", options.port ?? 0, listen)
  const [server] = servers

  // Every session is opened at once: its deadlines and queue continue without a request.
  sessions.restore()

  const port = server.port ?? 0
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    runnerUrl: (session) => `ws://127.0.0.1:${port}/sessions/${encodeURIComponent(session)}/ws`,
    find: (id) => sessions.find(id)?.session,
    hosted: sessions.find,
    directory,
    authenticate: (request) => authenticateRequest(httpHost(server), request),
    create: sessions.create,
    provision,
    handOver: sessions.handOver,
    stop: async () => {
      await sessions.settle()
      stopped = true
      lobby.closeAll(1001, "the hub is shutting down")
      for (const { connections } of sessions.all())
        connections.closeAll(1001, "the hub is shutting down")
      await Promise.all(servers.map((one) => one.stop(true)))
      sessions.close()
      accessSql.close()
    },
  }
}
