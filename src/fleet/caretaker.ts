/**
 * Periodic work for sandboxes without events: keeps busy ones alive, removes snapshots and volumes that are not needed,
 * renews a snapshot that ends soon. One replica does it at a time.
 */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { basesToRemove, isBaseName } from "./core/base-snapshots.ts"
import { workspaceVolume } from "./core/names.ts"
import { dayOf } from "./core/quota.ts"
import { mustRenew, snapshotsToRemove, type StoredSnapshot } from "./core/snapshots.ts"
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
  /** The volume of an ended session is removed after this time. */
  readonly volumeMs: number
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
/** The provider must not stop a sandbox before the fleet does. */
const BUFFER_MS = 30 * 60_000

/**
 * Snapshots of sessions whose records were deleted. The sessions are read after the snapshots, so the session of each was
 * there. Another session may have been made from one.
 */
const orphansOf = (
  snapshots: readonly StoredSnapshot[],
  sessions: readonly StoredSession[],
): readonly StoredSnapshot[] => {
  const known = new Set(sessions.map(({ id }) => id))
  const used = new Set(sessions.flatMap(({ life }) => life.snapshot?.id ?? []))
  return snapshots.filter(
    ({ id, session }) => !known.has(session) && !used.has(id) && !isBaseName(session),
  )
}

export const createCaretaker = (options: CaretakerOptions): Caretaker => {
  const { store, provider, clock, log } = options
  let cancel = () => {}
  let isStopped = false

  /** Once in this time for all replicas. */
  const isDue = (name: string, ms: number): Promise<boolean> =>
    store.lease(name, crypto.randomUUID(), clock.now(), clock.now() + ms)

  const keepAlive = async ({ id, life }: StoredSession): Promise<void> => {
    if (life.ref === undefined || life.phase !== "running" || !life.busy) return
    if (!(await isDue(`keep-alive:${id}`, KEEP_ALIVE_MS))) return
    const kept = await provider.keepAlive(life.ref, options.idleMs + BUFFER_MS)
    if (kept.is !== "ok") log.warn("fleet.keep-alive-failed", { session: id, is: kept.is })
  }

  const removeSnapshot = async (session: string, snapshot: string): Promise<void> => {
    const removed = await provider.removeSnapshot(snapshot)
    if (removed.is === "ok" || removed.is === "missing") await store.dropSnapshot(snapshot)
    else log.warn("fleet.snapshot-not-removed", { session, snapshot, why: removed.why })
  }

  const tidySnapshots = async (
    { id, life }: StoredSession,
    stored: readonly StoredSnapshot[],
  ): Promise<void> => {
    const state = {
      current: life.snapshot?.id,
      hasEnded: life.phase === "ended",
      lifeMs: provider.can.snapshotLifeMs,
    }
    for (const snapshot of snapshotsToRemove(stored, state, clock.now())) {
      await removeSnapshot(id, snapshot)
    }
    const current = stored.find((one) => one.id === life.snapshot?.id)
    const isAsleep = life.wanted === "asleep" && life.ref === undefined
    // It runs until it is idle and is saved again.
    if (current && isAsleep && mustRenew(current.createdAt, state.lifeMs, clock.now()))
      await options.keeper.want(id, "running")
  }

  const removeVolume = async ({ id, life, updatedAt }: StoredSession): Promise<void> => {
    const name = workspaceVolume(id)
    // The sessions of an orchestrator share one volume, which outlives each of them.
    if (life.phase !== "ended" || name !== `workspace-${id}` || !provider.can.volumes) return
    if (clock.now() < updatedAt + options.volumeMs) return
    if (!(await isDue(`volume:${id}`, 365 * 86_400_000))) return
    const removed = await provider.removeVolume(name)
    if (removed.is === "ok" || removed.is === "missing") return
    log.warn("fleet.volume-not-removed", { session: id, why: removed.why })
  }

  /** Of a process that died while it made a base snapshot. */
  const endBuild = async ({ id, kind, life, createdAt }: StoredSession): Promise<void> => {
    if (kind !== "base" || clock.now() < createdAt + BUILD_MS) return
    if (life.phase === "ended") await store.forget(id)
    else await options.keeper.want(id, "ended")
  }

  /** When this process last counted the time of running sandboxes. */
  let countedAt: number | undefined
  /** The replica that does the rounds counts for all; after a pause of its own it does not guess. */
  const countSeconds = async (sessions: readonly StoredSession[]): Promise<void> => {
    const since = countedAt
    const now = clock.now()
    countedAt = now
    if (since === undefined || now - since > LEASE_MS) return
    const ofOwners = new Map<string, number>()
    for (const { provider: name, tenant, life, createdAt } of sessions) {
      if (life.ref === undefined || life.phase === "paused") continue
      const seconds = (now - Math.max(since, createdAt)) / 1000
      options.metrics?.add("seconds_total", { provider: name, tenant }, seconds)
      ofOwners.set(tenant, (ofOwners.get(tenant) ?? 0) + seconds)
    }
    for (const [tenant, seconds] of ofOwners) await store.addSeconds(tenant, dayOf(now), seconds)
  }

  const round = async (): Promise<void> => {
    const snapshots = await store.snapshots()
    const { snapshotLifeMs } = provider.can
    for (const id of basesToRemove(snapshots, options.runtimeKey, snapshotLifeMs, clock.now()))
      await removeSnapshot("base", id)
    const sessions = await store.list()
    for (const { id, session } of orphansOf(snapshots, sessions)) await removeSnapshot(session, id)
    await countSeconds(sessions)
    for (const session of sessions) {
      await keepAlive(session)
      const own = snapshots.filter((one) => one.session === session.id)
      if (own.length > 0) await tidySnapshots(session, own)
      await removeVolume(session)
      await endBuild(session)
    }
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
