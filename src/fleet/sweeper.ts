/** Compares what the provider has with what the store knows, and ends what belongs to no session. */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import type { Keeper } from "./keeper.ts"
import type { Metrics } from "./metrics.ts"
import type { SandboxInfo, SandboxProvider, SnapshotInfo } from "./providers/contract.ts"
import type { FleetStore } from "./store/ports.ts"

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

  /** The store knows every snapshot whose making was confirmed, until it is removed. */
  const findLostSnapshots = async (): Promise<readonly string[]> => {
    const found: SnapshotInfo[] = []
    for await (const snapshot of provider.listSnapshots?.({ deployment: options.deployment }) ?? [])
      found.push(snapshot)
    const known = new Set([
      ...(await store.snapshots()).map(({ id }) => id),
      ...(await store.list()).flatMap(({ life }) => life.snapshot?.id ?? []),
    ])
    return found
      .filter(({ id, createdAt }) => !known.has(id) && clock.now() - createdAt >= SNAPSHOT_GRACE_MS)
      .map(({ id }) => id)
  }

  const sweep: Sweeper["sweep"] = async (dryRun = false) => {
    const bySession = new Map<string, SandboxInfo[]>()
    let seen = 0
    for await (const info of provider.list({ deployment: options.deployment })) {
      seen += 1
      // Without a session's label it is not ours.
      if (info.session !== undefined)
        bySession.set(info.session, [...(bySession.get(info.session) ?? []), info])
    }
    const known = await store.list()
    const knownIds = new Set(known.map(({ id }) => id))
    const leaked: string[] = []
    for (const [session, found] of bySession) {
      if (knownIds.has(session)) continue
      const old = ({ createdAt }: SandboxInfo) =>
        createdAt !== undefined && clock.now() - createdAt >= GRACE_MS
      leaked.push(...found.filter(old).map(({ ref }) => ref))
    }
    const lostSnapshots = await findLostSnapshots()
    if (dryRun) return { seen, leaked, terminated: 0, lostSnapshots }
    let strays = 0
    for (const { id, life } of known) {
      const found = bySession.get(id) ?? []
      // While a call is under way a sandbox may be the one that it makes.
      if (!life.pending) strays += found.filter(({ ref }) => ref !== life.ref).length
      if (found.length > 0 || life.ref !== undefined) await keeper.seen(id, found)
    }
    const ended = await Promise.all(leaked.map((ref) => provider.terminate(ref)))
    const terminated = ended.filter(({ is }) => is === "ok").length
    if (terminated > 0)
      options.metrics?.add("strays_total", { provider: provider.name }, terminated)
    // One that cannot be removed now is found again by the next sweep.
    for (const id of lostSnapshots) await provider.removeSnapshot(id)
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
    cancel = clock.after(EVERY_MS * (0.75 + 0.5 * Math.random()), () => void round())
  }

  return { sweep, start: () => void round(), stop: () => cancel() }
}
