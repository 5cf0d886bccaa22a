/** Compares what the provider has with what the store knows, and ends what belongs to no session. */
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../lib/log.ts"
import { snapshotsOf } from "./core/snapshots.ts"
import type { Keeper } from "./keeper.ts"
import type { Metrics } from "./metrics.ts"
import type { SandboxInfo, SandboxProvider, SnapshotInfo } from "./providers/contract.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"

export interface SweeperOptions {
  readonly store: FleetStore
  readonly provider: SandboxProvider
  readonly keeper: Keeper
  readonly deployment: string
  readonly replica: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: Pick<Metrics, "add"> | undefined
}

export interface SweepResult {
  readonly seen: number
  /** Sandboxes of this deployment whose session is unknown. */
  readonly leaked: readonly string[]
  readonly terminated: number
  /** Snapshots of this deployment that were made, but whose making was not confirmed. */
  readonly lostSnapshots: readonly string[]
}

export interface Sweeper {
  /** `dryRun`: reports what would be ended. */
  readonly sweep: (dryRun?: boolean) => Promise<SweepResult>
  readonly start: () => void
  readonly stop: () => void
}

const EVERY_MS = 5 * 60_000
/** A younger sandbox may belong to a session that is being stored. */
const GRACE_MS = 10 * 60_000
/** The answer to a call that makes a snapshot may take ten minutes. */
const SNAPSHOT_GRACE_MS = 30 * 60_000
const LEASE_MS = 4 * 60_000

export const createSweeper = (options: SweeperOptions): Sweeper => {
  const { store, provider, keeper, clock, log } = options
  let cancel = () => {}
  let isStopped = false

  const failed = (what: string) => (error: unknown) => {
    log.warn("sweep.incomplete", { what, error: describeError(error) })
  }

  /** The store knows every snapshot whose making was confirmed, until it is removed. */
  const findLostSnapshots = async (): Promise<readonly string[]> => {
    const found: SnapshotInfo[] = []
    for await (const snapshot of provider.listSnapshots?.({ deployment: options.deployment }) ?? [])
      found.push(snapshot)
    const known = new Set([
      ...(await store.snapshots()).map(({ id }) => id),
      ...(await store.present()).flatMap(({ life }) => snapshotsOf(life)),
    ])
    return found
      .filter(({ id, createdAt }) => !known.has(id) && clock.now() - createdAt >= SNAPSHOT_GRACE_MS)
      .map(({ id }) => id)
  }

  /** Ends the records of sandboxes that are gone and that no life knows: the keeper ends the others. */
  const endRecords = async (
    records: Awaited<ReturnType<FleetStore["openRecords"]>>,
    sessions: readonly StoredSession[],
  ): Promise<void> => {
    const lives = new Map(sessions.map(({ id, life }) => [id, life]))
    for (const { session, ref } of records) {
      const life = lives.get(session) ?? (await store.find(session))?.life
      if (life?.ref === ref || life?.doomed.includes(ref) === true) continue
      await store.endRecord(session, ref, life ? "gone" : "forgotten", clock.now())
    }
  }

  const sweep: Sweeper["sweep"] = async (dryRun = false) => {
    // Read before the list: what is missing there has ended.
    const records = await store.openRecords(provider.name)
    const refs = new Set<string>()
    const bySession = new Map<string, SandboxInfo[]>()
    let seen = 0
    for await (const info of provider.list({ deployment: options.deployment })) {
      seen += 1
      if (info.state !== "dead") refs.add(info.ref)
      // Without a session's label it is not ours.
      if (info.session !== undefined)
        bySession.set(info.session, [...(bySession.get(info.session) ?? []), info])
    }
    const known = [...(await store.present())]
    const knownIds = new Set(known.map(({ id }) => id))
    const leaked: string[] = []
    for (const [session, found] of bySession) {
      if (knownIds.has(session)) continue
      // A session that has ended ends its late sandboxes itself.
      const ended = await store.find(session)
      if (ended) {
        known.push(ended)
        continue
      }
      const old = ({ createdAt }: SandboxInfo) =>
        createdAt !== undefined && clock.now() - createdAt >= GRACE_MS
      leaked.push(...found.filter(old).map(({ ref }) => ref))
    }
    // A list that cannot be read must not keep leaked sandboxes alive.
    const lostSnapshots = (await findLostSnapshots().catch(failed("snapshots"))) ?? []
    if (dryRun) return { seen, leaked, terminated: 0, lostSnapshots }
    let strays = 0
    for (const { id, life } of known) {
      const found = bySession.get(id) ?? []
      // While a call is under way a sandbox may be the one that it makes.
      if (!life.pending) strays += found.filter(({ ref }) => ref !== life.ref).length
      if (found.length > 0 || life.ref !== undefined)
        await keeper.seen(id, found).catch(failed(`compare ${id}`))
    }
    const answers = await Promise.all(
      leaked.map((ref) => provider.terminate(ref).catch(failed(`terminate ${ref}`))),
    )
    const terminated = answers.filter((one) => one?.is === "ok").length
    const isGone = (index: number) => ["ok", "missing"].includes(answers[index]?.is ?? "unknown")
    const gone = new Set(leaked.filter((_, index) => isGone(index)))
    await endRecords(
      records.filter(({ ref }) => gone.has(ref) || !refs.has(ref)),
      known,
    )
    if (terminated > 0)
      options.metrics?.add("strays_total", { provider: provider.name }, terminated)
    // One that cannot be removed now is found again by the next sweep.
    for (const id of lostSnapshots)
      await provider.removeSnapshot(id).catch(failed(`remove snapshot ${id}`))
    await store.purge(clock.now())
    const lost = lostSnapshots.length
    log.info("sweep.done", { seen, strays, leaked: leaked.length, terminated, lostSnapshots: lost })
    return { seen, leaked, terminated, lostSnapshots }
  }

  const round = async () => {
    const at = clock.now()
    try {
      if (await store.lease("sweep", options.replica, at, at + LEASE_MS)) await sweep()
    } catch (error) {
      log.warn("sweep.failed", { error: String(error) })
    }
    // Jitter: the replicas of a deployment do not all sweep at the same moment.
    if (isStopped) return
    const pause = Math.round(EVERY_MS * (0.75 + 0.5 * Math.random()))
    cancel = clock.after(pause, () => void round())
  }

  return {
    sweep,
    start: () => void round(),
    stop: () => {
      isStopped = true
      cancel()
    },
  }
}
