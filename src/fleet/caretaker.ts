/**
 * Periodic work for sandboxes without events: keeps those in use alive, counts the time that they run, removes snapshots,
 * volumes and records that are not needed, renews a snapshot that ends soon. One replica does it at a time, and no round
 * reads all sessions that have ended.
 */
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../lib/log.ts"
import { basesToRemove, isBaseName } from "./core/base-snapshots.ts"
import { mustRenew, snapshotsOf, snapshotsToRemove, type StoredSnapshot } from "./core/snapshots.ts"
import { createEndedSessions } from "./ended-sessions.ts"
import type { Keeper } from "./keeper.ts"
import type { Metrics } from "./metrics.ts"
import type { SandboxProvider } from "./providers/contract.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"

export interface CaretakerOptions {
  readonly store: FleetStore
  readonly keeper: Pick<Keeper, "want">
  readonly provider: SandboxProvider
  readonly replica: string
  readonly clock: Clock
  readonly log: Log
  readonly idleMs: number
  /** The provider must not stop a sandbox before the fleet does: it waits so much longer. */
  readonly idleBufferMs: number
  /** The volume of an ended session is removed after this time. */
  readonly volumeMs: number
  /** The records of a sandbox and of its session are deleted so long after their end. */
  readonly historyMs: number
  /** The program in new sandboxes. */
  readonly runtimeKey: string
  readonly metrics?: Pick<Metrics, "add"> | undefined
}

export interface Caretaker {
  readonly round: () => Promise<void>
  readonly start: () => void
  readonly stop: () => void
}

const EVERY_MS = 60_000
const LEASE_MS = 3 * 60_000
const BUILD_MS = 30 * 60_000
const KEEP_ALIVE_MS = 10 * 60_000
/** A keep-alive at a cloud takes seconds, and a round has a minute. */
const AT_ONCE = 8

export const createCaretaker = (options: CaretakerOptions): Caretaker => {
  const { store, provider, clock, log } = options
  const endedSessions = createEndedSessions(options)
  let cancel = () => {}
  let isStopped = false

  /** Once in this time for all replicas. */
  const isDue = (name: string, ms: number): Promise<boolean> =>
    store.lease(name, crypto.randomUUID(), clock.now(), clock.now() + ms)

  /**
   * The fleet itself puts an idle sandbox to sleep, so the provider must stop none that is wanted: neither between two short
   * turns nor in the warm pool. About those of another session agent the fleet knows too little.
   */
  const isInUse = ({ kind, life }: StoredSession): boolean =>
    life.phase === "running" &&
    kind !== "external" &&
    (life.runner === "busy" || life.wanted === "running")

  const keepAlive = async (session: StoredSession): Promise<void> => {
    const { id, life } = session
    if (life.ref === undefined || !isInUse(session)) return
    if (!(await isDue(`keep-alive:${id}`, KEEP_ALIVE_MS))) return
    const kept = await provider.keepAlive(life.ref, options.idleMs + options.idleBufferMs)
    if (kept.is !== "ok") log.warn("fleet.keep-alive-failed", { session: id, is: kept.is })
  }

  const removeSnapshot = async (session: string, snapshot: string): Promise<void> => {
    const removed = await provider
      .removeSnapshot(snapshot)
      .catch((error: unknown) => ({ is: "unknown", why: describeError(error) }) as const)
    if (removed.is === "ok" || removed.is === "missing") await store.dropSnapshot(snapshot)
    else log.warn("fleet.snapshot-not-removed", { session, snapshot, why: removed.why })
  }

  const tidySnapshots = async (
    { id, kind, life }: StoredSession,
    stored: readonly StoredSnapshot[],
  ): Promise<void> => {
    const state = {
      current: life.snapshot?.id,
      missing: life.missingSnapshots ?? [],
      hasEnded: life.phase === "ended",
      lifeMs: provider.can.snapshotLifeMs,
    }
    for (const snapshot of snapshotsToRemove(stored, state, clock.now())) {
      await removeSnapshot(id, snapshot)
    }
    const current = stored.find((one) => one.id === life.snapshot?.id)
    // Another session agent knows its snapshots by their ids, and decides itself when its sandbox runs.
    const isAsleep = life.wanted === "asleep" && life.ref === undefined && kind !== "external"
    // It runs until it is idle and is saved again.
    if (current && isAsleep && mustRenew(current.createdAt, state.lifeMs, clock.now()))
      await options.keeper.want(id, "running")
  }

  /** Of a process that died while it made a base snapshot. */
  const endBuild = async ({ id, kind, createdAt }: StoredSession): Promise<void> => {
    if (kind === "base" && clock.now() >= createdAt + BUILD_MS)
      await options.keeper.want(id, "ended")
  }

  const countSeconds = async (): Promise<void> => {
    for (const { provider: name, tenant, seconds } of await store.countSeconds(clock.now()))
      options.metrics?.add("seconds_total", { provider: name, tenant }, seconds)
  }

  const failedFor = (session: string) => (error: unknown) =>
    log.warn("fleet.care-failed", { session, error: describeError(error) })

  /** What a session has at another provider cannot be reached, and stays as it is until that provider is used again. */
  const isHere = (session: StoredSession): boolean => session.provider === provider.name

  /** A failure concerns this session only: the others are looked after all the same. */
  const careFor = async (session: StoredSession, own: readonly StoredSnapshot[]): Promise<void> => {
    if (!isHere(session)) return
    await keepAlive(session)
    if (own.length > 0) await tidySnapshots(session, own)
    await endBuild(session)
  }

  /**
   * The session was not among those that have not ended: it has ended, or its record was deleted. It is read after its
   * snapshots, so it was there. `used`: another session may have been made from one of them.
   */
  const tidySnapshotsOfOther = async (
    id: string,
    own: readonly StoredSnapshot[],
    used: ReadonlySet<string>,
  ): Promise<void> => {
    const session = await store.find(id)
    if (session) return isHere(session) ? tidySnapshots(session, own) : undefined
    for (const snapshot of own) if (!used.has(snapshot.id)) await removeSnapshot(id, snapshot.id)
  }

  const round = async (): Promise<void> => {
    const snapshots = await store.snapshots()
    const sessions = await store.present()
    await countSeconds()
    const bySession = Map.groupBy(snapshots, ({ session }) => session)
    const care = (session: StoredSession) =>
      careFor(session, bySession.get(session.id) ?? []).catch(failedFor(session.id))
    for (let from = 0; from < sessions.length; from += AT_ONCE)
      await Promise.all(sessions.slice(from, from + AT_ONCE).map(care))
    const { snapshotLifeMs } = provider.can
    for (const id of basesToRemove(snapshots, options.runtimeKey, snapshotLifeMs, clock.now()))
      await removeSnapshot("base", id)
    const present = new Set(sessions.map(({ id }) => id))
    const used = new Set(sessions.flatMap(({ life }) => snapshotsOf(life)))
    for (const [id, own] of bySession)
      if (!present.has(id) && !isBaseName(id))
        await tidySnapshotsOfOther(id, own, used).catch(failedFor(id))
    await store.purgeHistory(clock.now() - options.historyMs)
    await endedSessions.round()
  }

  const loop = async () => {
    const at = clock.now()
    try {
      if (await store.lease("caretaker", options.replica, at, at + LEASE_MS)) await round()
    } catch (error) {
      log.warn("fleet.caretaker-failed", { error: String(error) })
    }
    if (!isStopped) cancel = clock.after(EVERY_MS, () => void loop())
  }

  return {
    round,
    start: () => void loop(),
    stop: () => {
      isStopped = true
      cancel()
    },
  }
}
