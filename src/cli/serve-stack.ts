/** The hub and the fleet in one process: what the hub reports about a session decides about its sandbox. */
import { divideVariables } from "../fleet/core/link-variables.ts"
import { createFleet, type Fleet, type FleetOptions } from "../fleet/fleet.ts"
import { type HubPort, HubRefusal } from "../fleet/hub-port.ts"
import { type LocalHub, type LocalHubOptions, startLocalHub } from "../hub/hosts/bun/local-hub.ts"
import { refusalOfRunner } from "../hub/session/admit-runner.ts"
import type { SessionActivity } from "../hub/session/ports.ts"
import type { Session } from "../hub/session/session.ts"
import { LOCAL_OWNER, parseOwner, POOL_OWNER } from "../hub/access/ownership.ts"
import { originFor } from "../runner/gateway/hosts.ts"
import { channelAddress, MAIN_CHANNEL } from "../wire/channel.ts"
import { fleetAccess } from "./fleet-access.ts"
import { sandboxEnvironment } from "./sandbox-environment.ts"

export interface ServeStackOptions extends Pick<
  FleetOptions,
  | "provider"
  | "store"
  | "version"
  | "idleMs"
  | "idleBufferMs"
  | "lifeMs"
  | "pausedMs"
  | "storedMs"
  | "minimumVersion"
  | "quotas"
  | "volumeMs"
  | "historyMs"
  | "costPerHour"
  | "whisperVolume"
  | "poolSize"
  | "runtimeKey"
  | "resources"
  | "diskLimit"
> {
  readonly hub: LocalHubOptions
  /** The origin of the page; its port is that of the hub where it is on this machine. */
  readonly pageOrigin?: string | undefined
  /** The config of a session that gets its first sandbox. */
  readonly configure: (session: string, hub: LocalHub) => Promise<void>
}

export interface ServeStack extends Pick<Fleet, "keeper" | "sweeper" | "pool"> {
  readonly hub: LocalHub
  readonly stop: () => Promise<void>
}

const hubPortOf = (hub: LocalHub): HubPort => {
  const mustFind = (id: string): Session => {
    const session = hub.find(id)
    if (!session) throw new HubRefusal(`the hub has no session ${id}`)
    return session
  }
  return {
    admitRunner: async (id, generation, tokenHash) => {
      const session = mustFind(id)
      const refusal = refusalOfRunner(session.activity(), generation)
      if (refusal) throw new HubRefusal(refusal.why)
      session.setRunnerToken(tokenHash, generation)
      return {
        runnerUrl: hub.runnerUrl(id),
        gatewayKey: await hub.gatewayKey(id, generation),
      }
    },
    gatewayKey: (id, generation) => hub.gatewayKey(id, generation),
    note: async (session, id, content) => hub.find(session)?.note({ id, role: "system", content }),
    open: async (id, owner) => {
      hub.create(id, parseOwner(owner) ?? LOCAL_OWNER)
      return mustFind(id).generation()
    },
    reserve: async (id) => void hub.create(id, POOL_OWNER),
    handOver: async (id, owner, creator) => {
      const refusal = hub.handOver(id, parseOwner(owner) ?? LOCAL_OWNER, creator)
      if (refusal !== undefined) throw new HubRefusal(refusal)
    },
    takesGitCredentials: async (id) => hub.find(id)?.runner.git.isAccepted() ?? false,
    prompt: async (id, messageId, content) => {
      const session = mustFind(id)
      // The fleet may not have heard of its end yet.
      if (session.status().status === "ended") throw new HubRefusal(`the session ${id} has ended`)
      const problem = session.problemOfPrompt(messageId, content)
      if (problem !== undefined) throw new HubRefusal(problem)
      session.prompt(
        { type: "prompt", messageId, content, ...channelAddress(MAIN_CHANNEL) },
        MAIN_CHANNEL,
      )
    },
    stop: async (id) => hub.find(id)?.stop(MAIN_CHANNEL),
    end: (id, why) => hub.end(id, why),
  }
}

export const startServeStack = async (options: ServeStackOptions): Promise<ServeStack> => {
  const { store } = options
  const { clock, log } = options.hub
  // The hub opens its sessions before the fleet exists; what they report then is handled afterwards.
  const early: (readonly [string, SessionActivity])[] = []
  let handle = (session: string, now: SessionActivity): void => void early.push([session, now])

  const environmentOf = sandboxEnvironment(options.hub.environment)
  // The hub listens before there is a fleet: the first requests wait for it.
  const { promise: made, resolve: isMade } = Promise.withResolvers<Fleet>()

  const hub: LocalHub = await startLocalHub({
    ...options.hub,
    // A sandbox of the pool belongs to no owner that could have credentials.
    gitCredentials: (owner) =>
      owner === POOL_OWNER ? {} : divideVariables(environmentOf(owner)).git,
    activity: (session, now) => handle(session, now),
    routes: async (request) => (await made).door(request),
    gatewayUrl: async (session) => (await made).gatewayUrl(session),
    warmSessions: {
      take: async (owner, creator) => {
        try {
          return await (await made).pool.take(owner, creator)
        } catch (error) {
          // Without it the session's first prompt starts a sandbox.
          log.warn("pool.take-failed", { error: String(error) })
          return undefined
        }
      },
      give: async (id) => (await made).pool.give(id),
      putBack: async (id) => (await made).pool.putBack(id),
    },
  })
  const fleet = await createFleet({
    ...options,
    hub: hubPortOf(hub),
    clock,
    log,
    authorize: fleetAccess({
      authenticate: hub.authenticate,
      targetOf: (id) => hub.hosted(id)?.access.target(),
    }),
    environmentOf,
    pageOrigins: [
      ...(options.pageOrigin === undefined ? [] : [originFor(options.pageOrigin, `:${hub.port}`)]),
      ...(options.hub.allowedOrigins ?? []),
    ],
    added: (session) => options.configure(session, hub),
  })
  isMade(fleet)
  handle = (session, activity) => {
    const owner = hub.hosted(session)?.access.owner() ?? LOCAL_OWNER
    // A failure is logged by the follower; the next report repeats the state.
    fleet.follower.follow({ session, owner, activity }).catch(() => {})
  }
  for (const [session, now] of early) handle(session, now)
  // Sandboxes of before a restart: their runners connect again, or are found missing.
  for (const { id, life } of await store.present()) {
    const session = hub.find(id)
    if (session) handle(id, { ...session.activity(), generation: life.generation })
  }
  await hub.resume()
  fleet.start()
  return {
    hub,
    keeper: fleet.keeper,
    sweeper: fleet.sweeper,
    pool: fleet.pool,
    stop: async () => {
      handle = () => {}
      await fleet.stop()
      await hub.stop()
    },
  }
}
