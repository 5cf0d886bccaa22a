/**
 * Keeps sandboxes ready that no session has yet, and gives one to a session that needs it. An entry is a session of the hub
 * without an owner: its sandbox keeps its id and its tokens when it is claimed, and has no secret of an owner before.
 */
import type { Clock } from "../lib/clock.ts"
import { digestOf } from "../lib/digest.ts"
import { describeError, type Log } from "../lib/log.ts"
import { workspaceVolume } from "./core/names.ts"
import {
  fitOf,
  isReady,
  pauseAfter,
  planPool,
  POOL_TENANT,
  type PoolPause,
  poolKeyOf,
} from "./core/pool.ts"
import { type HubPort, HubRefusal } from "./hub-port.ts"
import type { Keeper } from "./keeper.ts"
import type { Metrics } from "./metrics.ts"
import type { SandboxProvider } from "./providers/contract.ts"
import type { OwnerQuotas } from "./quotas.ts"
import type { EnvironmentOf } from "./sandbox-spec.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"

export interface PoolOptions {
  readonly store: FleetStore
  readonly keeper: Pick<Keeper, "add" | "want" | "endUnclaimed">
  /** A claimed sandbox counts as one that its owner has started. */
  readonly quotas: Pick<OwnerQuotas, "count" | "uncount" | "hasRoom">
  readonly hub: Pick<HubPort, "reserve" | "handOver" | "takesGitCredentials" | "end">
  readonly provider: Pick<SandboxProvider, "name" | "can" | "removeVolume">
  /** How many sandboxes are kept ready; 0: none. */
  readonly size: number
  /** Changes when sandboxes of before must not be used any more. */
  readonly runtimeKey: string
  readonly environmentOf: EnvironmentOf
  /** The config of a session that gets its first sandbox. */
  readonly added: (session: string) => Promise<void>
  readonly replica: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: Pick<Metrics, "add"> | undefined
}

export interface Pool {
  /** A running sandbox for a thread that has no session. Undefined: it has to be started as usual. */
  readonly claim: (owner: string, threadKey: string) => Promise<StoredSession | undefined>
  /**
   * The first half of a claim for a session without a thread: the sandbox is in the pool no more, and the hub does not know
   * its owner. The caller either gives it or puts it back. `creator`: the person who makes the session.
   */
  readonly take: (owner: string, creator: string | undefined) => Promise<string | undefined>
  /** The hub gives the taken session to its owner. */
  readonly give: (id: string) => Promise<void>
  readonly putBack: (id: string) => Promise<void>
  /** Tells the hub the owner of a claimed session, unless it knows. Other sessions are returned as they are. */
  readonly settle: (session: StoredSession) => Promise<StoredSession>
  /** Starts what is missing, ends what is not needed, and settles claims of replicas that died. */
  readonly round: () => Promise<void>
  readonly start: () => void
  readonly stop: () => Promise<void>
}

const EVERY_MS = 5000
/** While sandboxes start or end. */
const SOON_MS = 500
/** Without a pool: only entries of before the setting was changed have to be ended. */
const EVERY_WITHOUT_MS = 60_000
const LEASE_MS = 15_000
/** Longer than the request that has taken a session lives. Afterwards its replica has died, and any round gives it. */
const HOLD_MS = 2 * 60_000
const NOT_NEEDED = "the pool does not need it any more"

export const createPool = (options: PoolOptions): Pool => {
  const { store, keeper, quotas, hub, clock, log, size } = options
  let cancel = () => {}
  let isStopped = false
  let isSettled = false
  let claims = 0
  /** Of this replica: another one that takes over makes a first attempt at once. */
  let pause: PoolPause | undefined
  let running: Promise<void> | undefined

  const keyOf = (tenant: string): string =>
    poolKeyOf(options.runtimeKey, options.environmentOf(tenant), digestOf)

  /** Sessions that this replica has taken and not given yet, and under which id each was counted. */
  const taken = new Map<string, string>()

  const settle = async (session: StoredSession): Promise<StoredSession> => {
    if (session.kind !== "claimed") return session
    await hub.handOver(session.id, session.tenant, session.creator)
    await store.bind(session.id)
    // The time until it sleeps begins now.
    return (await keeper.want(session.id, "running")) ?? session
  }

  /** The sandboxes whose runners take git credentials now. */
  const takers = async (key: string): Promise<readonly string[]> => {
    const ready = (await store.pooled()).filter(
      ({ kind, poolKey, life }) => kind === "pool" && poolKey === key && isReady(life),
    )
    const takes = await Promise.all(ready.map(({ id }) => hub.takesGitCredentials(id)))
    return ready.flatMap(({ id }, index) => (takes[index] ? [id] : []))
  }

  const takeOut = async (
    owner: string,
    to: Pick<Parameters<FleetStore["claim"]>[1], "threadKey" | "creator" | "heldUntil">,
  ) => {
    const fit = fitOf(options.environmentOf(POOL_TENANT), options.environmentOf(owner))
    if (size === 0 || fit === "none") return undefined
    const key = keyOf(POOL_TENANT)
    // Also asked if it is empty: the thread may have got its session meanwhile.
    const among = fit === "any" ? undefined : await takers(key)
    const counted = `claim-${crypto.randomUUID()}`
    if (await quotas.count({ id: counted, tenant: owner }, 0, true)) return undefined
    const from = clock.now()
    const { hasRoom } = quotas
    const claimed = await store.claim(key, { ...to, tenant: owner, among, hasRoom }, from)
    options.metrics?.add("pool_claims_total", { outcome: claimed ? "warm" : "empty" })
    // The pool has none, another request of this thread was faster, or the owner has got its last sandbox meanwhile.
    if (claimed?.kind !== "claimed") await quotas.uncount(counted, 0)
    return claimed && { claimed, counted, from }
  }

  const finishClaim = (id: string, from: number): void => {
    log.info("pool.claimed", { session: id, ms: clock.now() - from })
    claims += 1
    // After the answer: the start of the next sandbox must not delay this one.
    if (!isStopped) {
      cancel()
      cancel = clock.after(SOON_MS, () => void loop())
    }
  }

  const claim: Pool["claim"] = async (owner, threadKey) => {
    const found = await takeOut(owner, { threadKey })
    if (!found) return undefined
    const settled = await settle(found.claimed)
    finishClaim(settled.id, found.from)
    return settled
  }

  const take: Pool["take"] = async (owner, creator) => {
    const found = await takeOut(owner, { creator, heldUntil: clock.now() + HOLD_MS })
    if (!found) return undefined
    taken.set(found.claimed.id, found.counted)
    return found.claimed.id
  }

  const give: Pool["give"] = async (id) => {
    const from = clock.now()
    try {
      const session = await store.find(id)
      if (session) await settle(session)
    } finally {
      // After a failure a round gives it when it is not held any more.
      taken.delete(id)
    }
    finishClaim(id, from)
  }

  const putBack: Pool["putBack"] = async (id) => {
    const counted = taken.get(id)
    taken.delete(id)
    if (counted === undefined) return
    await store.unclaim(id, POOL_TENANT, clock.now())
    await quotas.uncount(counted, 0)
  }

  const begin = async (id: string): Promise<void> => {
    await hub.reserve(id)
    await options.added(id)
    await keeper.want(id, "running")
  }

  const finish = async (id: string): Promise<void> => {
    const ended = await keeper.endUnclaimed(id)
    if (ended?.kind === "pool") await hub.end(id, NOT_NEEDED)
  }

  const forget = async (id: string): Promise<void> => {
    const { provider } = options
    if (provider.can.volumes) {
      const removed = await provider.removeVolume(workspaceVolume(id))
      if (removed.is !== "ok" && removed.is !== "missing") return
    }
    // Again: the hub may have been away when the sandbox was ended, and without the row nothing ends its session.
    await hub.end(id, NOT_NEEDED).catch((error: unknown) => {
      // It has no such session.
      if (!(error instanceof HubRefusal)) throw error
    })
    await store.forget(id)
  }

  /** One that the hub refuses must not keep the pool from being filled. It is tried again in the next round. */
  const alone = async (id: string, done: Promise<unknown>): Promise<void> => {
    await done.catch((error: unknown) =>
      log.warn("pool.entry-failed", { session: id, error: describeError(error) }),
    )
  }

  /** Entries that fail are replaced ever later. A sandbox that could be made, for any session, ends that. */
  const look = async (entries: readonly StoredSession[]): Promise<void> => {
    const made = pause ? await store.openRecords(options.provider.name) : []
    const worked = made.reduce((newest, { createdAt }) => Math.max(newest, createdAt), 0)
    const aims = { key: keyOf(POOL_TENANT), at: clock.now() }
    const next = pauseAfter(pause, entries, worked, aims)
    if (next && next !== pause)
      log.warn("pool.paused", { times: next.times, ms: next.until - next.since })
    pause = next
  }

  const work = async (): Promise<void> => {
    const sessions = await store.pooled()
    const isLeft = ({ kind, heldUntil = 0 }: StoredSession) =>
      kind === "claimed" && heldUntil <= clock.now()
    for (const claimed of sessions.filter(isLeft)) await alone(claimed.id, settle(claimed))
    const entries = sessions.filter(({ kind }) => kind === "pool")
    await look(entries)
    const aims = { key: keyOf(POOL_TENANT), size, at: clock.now(), pausedUntil: pause?.until }
    const plan = planPool(entries, aims)
    isSettled =
      plan.add === 0 &&
      (entries.length === size || pause !== undefined) &&
      entries.every(({ life }) => isReady(life))
    for (const id of plan.forget) await alone(id, forget(id))
    for (const id of plan.end) await alone(id, finish(id))
    for (const id of plan.start) await alone(id, begin(id))
    for (let number = 0; number < plan.add; number += 1) {
      const id = `warm-${crypto.randomUUID()}`
      // The record first: a crash leaves an entry that the next round starts.
      await keeper.add({
        id,
        kind: "pool",
        tenant: POOL_TENANT,
        provider: options.provider.name,
        environment: {},
        poolKey: keyOf(POOL_TENANT),
      })
      await begin(id)
    }
  }

  /** One round at a time. */
  const round = (): Promise<void> => {
    running ??= work().finally(() => {
      running = undefined
    })
    return running
  }

  const turn = async (): Promise<void> => {
    const at = clock.now()
    isSettled = true
    try {
      if (await store.lease("pool", options.replica, at, at + LEASE_MS)) await round()
    } catch (error) {
      log.warn("pool.round-failed", { error: String(error) })
    }
  }

  const loop = async (): Promise<void> => {
    cancel()
    const before = claims
    await turn()
    cancel()
    const next =
      !isSettled || claims !== before ? SOON_MS : size === 0 ? EVERY_WITHOUT_MS : EVERY_MS
    if (!isStopped) cancel = clock.after(next, () => void loop())
  }
  return {
    claim,
    take,
    give,
    putBack,
    settle,
    round,
    start: () => void loop(),
    stop: async () => {
      isStopped = true
      cancel()
      await running?.catch(() => {})
      // Another replica goes on at once.
      await store.lease("pool", options.replica, clock.now(), clock.now()).catch(() => false)
    },
  }
}
