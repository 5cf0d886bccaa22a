/** `sandpiper serve` with HUB_URL: only the fleet, for a hub in another process such as Durable Objects. */
import { createFleet, type FleetOptions } from "../fleet/fleet.ts"
import { createHubDoor } from "../fleet/hub-door.ts"
import { createRemoteHub } from "../fleet/remote-hub.ts"
import type { JwtVerifier } from "../hub/access/verify-jwt.ts"
import { fleetAccess, tokensOnly } from "./fleet-access.ts"
import { createAttempts } from "../lib/failed-attempts.ts"
import { createHttpGuard, IDLE_SECONDS } from "../lib/http-guard.ts"
import { MAX_FORM } from "../fleet/api/gateway-routes.ts"

export interface ServeFleetOptions extends Omit<FleetOptions, "hub" | "authorize" | "added"> {
  readonly hubUrl: string
  /** Further origins of pages that show sandboxes in a frame. */
  readonly allowedOrigins?: readonly string[] | undefined
  readonly fleetKey: string
  readonly hostname: string
  readonly port: number
  readonly operatorToken: string
  /** How people prove who they are; undefined: only the operator's token counts. */
  readonly verifyJwt?: JwtVerifier | undefined
}

export interface ServedFleet {
  readonly url: string
  readonly port: number
  readonly stop: () => Promise<void>
}

export const startServedFleet = async (options: ServeFleetOptions): Promise<ServedFleet> => {
  const { clock, log, store } = options
  const guard = createHttpGuard()
  const fleet = await createFleet({
    ...options,
    hub: createRemoteHub({ url: options.hubUrl, key: options.fleetKey, clock, log }),
    authorize: fleetAccess({
      authenticate: tokensOnly(
        options.operatorToken,
        options.verifyJwt,
        guard.addressOf,
        createAttempts(clock.now).failed,
      ),
      targetOf: () => undefined,
    }),
    // The hub serves the page, too.
    pageOrigins: [new URL(options.hubUrl).origin, ...(options.allowedOrigins ?? [])],
    // The config of a session is the hub's.
    added: async () => {},
  })
  const { follower, gatewayUrl } = fleet
  const hubDoor = createHubDoor({ key: options.fleetKey, follower, store, clock, gatewayUrl })
  const answer = async (request: Request): Promise<Response> => {
    if (new URL(request.url).pathname === "/health") return Response.json({ ok: true })
    return (
      (await hubDoor(request)) ??
      (await fleet.door(request)) ??
      new Response("no such route", { status: 404 })
    )
  }
  const server = Bun.serve({
    hostname: options.hostname,
    port: options.port,
    idleTimeout: IDLE_SECONDS,
    maxRequestBodySize: MAX_FORM,
    fetch: (request, self) => guard.handle(self, request, answer),
    error: (error) => {
      log.error("fleet.request-failed", { error: String(error) })
      return Response.json(
        { error: "the request failed; the log of the server has the reason", code: "failed" },
        { status: 500 },
      )
    },
  })
  fleet.start()
  const port = server.port ?? 0
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      await server.stop()
      await fleet.stop()
    },
  }
}
