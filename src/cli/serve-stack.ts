/** The hub and the fleet in one process: what the hub reports about a session decides about its sandbox. */
import { createDoor } from "../fleet/door.ts"
import { createKeeper, type Keeper } from "../fleet/keeper.ts"
import { createSweeper, type Sweeper } from "../fleet/sweeper.ts"
import { assembleEnvironment } from "../fleet/core/environment.ts"
import { labelsOf, sandboxName } from "../fleet/core/names.ts"
import type { SandboxProvider, SandboxSpec } from "../fleet/providers/contract.ts"
import type { FleetStore, StoredSession } from "../fleet/store/ports.ts"
import { childEnvironment } from "../hub/hosts/bun/child-environment.ts"
import { type LocalHub, type LocalHubOptions, startLocalHub } from "../hub/hosts/bun/local-hub.ts"
import type { SessionActivity } from "../hub/session/ports.ts"
import { hashOf } from "../hub/keys.ts"
import { sameText } from "../lib/constant-time.ts"
import { digestOf } from "../lib/digest.ts"
import { channelAddress } from "../wire/channel.ts"

export interface ServeStackOptions {
  readonly hub: LocalHubOptions
  readonly provider: SandboxProvider
  readonly store: FleetStore
  readonly version: string
  readonly idleMs: number
  readonly pausedMs: number | undefined
  readonly minimumVersion: string | undefined
  /** The limits of each sandbox. */
  readonly resources?: SandboxSpec["resources"]
  /** The config of a session that gets its first sandbox. */
  readonly configure: (session: string, hub: LocalHub) => Promise<void>
}

export interface ServeStack {
  readonly hub: LocalHub
  readonly keeper: Keeper
  readonly sweeper: Sweeper
  readonly stop: () => Promise<void>
}

const BOOT_MS = 120_000
const RELINK_MS = 60_000
const LIFE_MS = 86_400_000
const THREAD_CHANNEL = "web:default"

/** Child sessions have a runner process that the hub starts itself. */
const isChild = (session: string): boolean => session.startsWith("child-")

export const startServeStack = async (options: ServeStackOptions): Promise<ServeStack> => {
  const { provider, store } = options
  const { clock, log, clientToken } = options.hub
  const tokenHash = await hashOf(clientToken)
  const deployment = await store.deployment()
  const replica = crypto.randomUUID()
  // The hub opens its sessions before the keeper exists; what they report then is handled afterwards.
  const early: (readonly [string, SessionActivity])[] = []
  let handle = (session: string, now: SessionActivity): void => void early.push([session, now])

  const isOperator = async (request: Request): Promise<boolean> => {
    const token = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1]
    return token !== undefined && sameText(await hashOf(token), tokenHash)
  }

  const hub: LocalHub = await startLocalHub({
    ...options.hub,
    activity: (session, now) => handle(session, now),
    routes: (request) => door(request),
  })

  const keeper = createKeeper({
    store,
    provider,
    deployment,
    replica,
    clock,
    log: log.child({ component: "fleet" }),
    version: options.version,
    idleMs: options.idleMs,
    lifeMs: LIFE_MS,
    policy: {
      can: provider.can,
      bootMs: BOOT_MS,
      relinkMs: RELINK_MS,
      idleMs: options.idleMs,
      pausedMs: options.pausedMs,
      minimumVersion: options.minimumVersion,
    },
    note: (session, content) =>
      hub.find(session)?.note({ id: `fleet-${crypto.randomUUID()}`, role: "system", content }),
    specOf: async (stored, { generation, snapshot }) => {
      const session = hub.find(stored.id)
      if (!session) throw new Error(`the hub has no session ${stored.id}`)
      const token = crypto.randomUUID()
      session.setRunnerToken(await hashOf(token), generation)
      return {
        session: stored.id,
        generation,
        name: sandboxName(stored.id, generation, digestOf),
        labels: labelsOf(deployment, stored.tenant, stored.id, generation),
        image:
          snapshot === undefined
            ? { kind: "image", id: options.version }
            : { kind: "snapshot", id: snapshot },
        environment: assembleEnvironment({
          providerKeys: childEnvironment(options.hub.environment),
          credentials: {},
          github: {},
          caller: stored.environment,
          core: {
            DO_WS_URL: hub.runnerUrl(stored.id),
            RUNNER_TOKEN: token,
            SESSION_ID: stored.id,
            JWT_SECRET: await hub.gatewayKey(stored.id, generation),
          },
        }),
        volumes: [],
        ports: [9000],
        resources: options.resources ?? {},
        idleMs: options.idleMs,
        lifeMs: LIFE_MS,
      }
    },
  })

  const record = async (id: string, threadKey?: string): Promise<StoredSession> => {
    const owner = hub.hosted(id)?.access.owner() ?? "user:local"
    const known = await store.find(id)
    const stored =
      known ??
      (await keeper.add({
        id,
        tenant: owner,
        threadKey,
        provider: provider.name,
        environment: {},
      }))
    if (!known) await options.configure(id, hub)
    return stored
  }

  const follow = async (id: string, now: SessionActivity): Promise<void> => {
    const waits = now.queued > 0 || now.working > 0
    const known = await store.find(id)
    if (!known && (now.hasEnded || !waits)) return
    const { life } = known ?? (await record(id))
    if (now.hasEnded) return void (await keeper.want(id, "ended"))
    if (waits && (life.wanted !== "running" || life.failed)) await keeper.want(id, "running")
    const { generation, connected: linked, working } = now
    await keeper.runner(id, { generation, linked, busy: working > 0 })
  }

  // The reports of one session are handled in their order.
  const lanes = new Map<string, Promise<void>>()
  handle = (session, now) => {
    if (isChild(session)) return
    const before = lanes.get(session) ?? Promise.resolve()
    const next = before
      .then(() => follow(session, now))
      .catch((error: unknown) => log.warn("fleet.follow-failed", { session, error: String(error) }))
    lanes.set(session, next)
  }

  const sweeper = createSweeper({ store, provider, keeper, deployment, replica, clock, log })
  const door = createDoor({
    keeper,
    sweeper,
    store,
    provider,
    isOperator,
    openThread: async (threadKey) => {
      const id = `thread-${digestOf(threadKey).replace(/^.*:/, "").slice(0, 24)}`
      hub.create(id)
      return record(id, threadKey)
    },
    prompt: (session, content, messageId) =>
      hub
        .find(session)
        ?.prompt(
          { type: "prompt", messageId, content, ...channelAddress(THREAD_CHANNEL) },
          THREAD_CHANNEL,
        ),
    stop: (session) => hub.find(session)?.stop(THREAD_CHANNEL),
  })

  for (const [session, now] of early) handle(session, now)
  // Sandboxes of before a restart: their runners connect again, or are found missing.
  for (const { id, life } of await store.list()) {
    const session = hub.find(id)
    if (!session) continue
    const { connected, working, queued, status } = session.status()
    handle(id, {
      generation: life.generation,
      connected,
      working,
      queued,
      hasEnded: status === "ended",
    })
  }
  await hub.resume()
  keeper.start()
  sweeper.start()
  return {
    hub,
    keeper,
    sweeper,
    stop: async () => {
      sweeper.stop()
      handle = () => {}
      await Promise.all(lanes.values())
      await keeper.stop()
      await hub.stop()
      await store.close()
    },
  }
}
