/** The parts of the fleet, joined: keeper, sweeper, the follower of the hub's reports and the HTTP API. */
import type { Clock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { createBaseSnapshots } from "./base-snapshot.ts"
import { createCaretaker } from "./caretaker.ts"
import { gatewayUrlOf } from "./api/api-call.ts"
import type { DiskSize } from "./core/disk-quota.ts"
import { createDiskWatch } from "./disk-watch.ts"
import { createDoor, type Door, type DoorOptions } from "./door.ts"
import { type HubFollower, followHub } from "./follow-hub.ts"
import type { HubPort } from "./hub-port.ts"
import { createKeeper, type Keeper } from "./keeper.ts"
import { createMetrics } from "./metrics.ts"
import { createPool, type Pool } from "./pool.ts"
import { isGivenUp } from "./core/life.ts"
import { pausedTime } from "./core/paused-time.ts"
import type { Quotas } from "./core/quota.ts"
import { createQuotas } from "./quotas.ts"
import type { SandboxProvider, SandboxSpec } from "./providers/contract.ts"
import { createSandboxSpec, type EnvironmentOf } from "./sandbox-spec.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"
import { createSweeper, type Sweeper } from "./sweeper.ts"

export interface FleetOptions {
  readonly hub: HubPort
  readonly provider: SandboxProvider
  readonly store: FleetStore
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  readonly idleMs: number
  /** So much longer than `idleMs` the provider waits before it stops an idle sandbox; half an hour if it is not given. */
  readonly idleBufferMs?: number | undefined
  /** The provider ends a sandbox after this time, if it has a limit; a day if it is not given. */
  readonly lifeMs?: number | undefined
  readonly pausedMs: number | undefined
  /** The same where the provider stores a paused sandbox with its memory; a month if it is not given, 0: for any time. */
  readonly storedMs?: number | undefined
  readonly minimumVersion: string | undefined
  /** The limits of each sandbox. */
  readonly resources?: SandboxSpec["resources"] | undefined
  /** What each sandbox may write, where its disk is one of this machine. Absent: the disks are not watched. */
  readonly diskLimit?: DiskSize | undefined
  readonly environmentOf: EnvironmentOf
  /** Origins of pages that may show sandboxes in a frame. */
  readonly pageOrigins?: readonly string[] | undefined
  /** The limits of each owner. */
  readonly quotas?: Quotas | undefined
  /** The volume of an ended session is removed after this time; a week if it is not given. */
  readonly volumeMs?: number | undefined
  /** The records of sandboxes and of ended sessions are deleted so long after their end; 90 days if it is not given. */
  readonly historyMs?: number | undefined
  /** What an hour of a sandbox costs; without it records have no cost. */
  readonly costPerHour?: number | undefined
  /** How many sandboxes are kept ready for new threads; none if it is not given. */
  readonly poolSize?: number | undefined
  /** The program in new sandboxes: another key ends the sandboxes of the pool. */
  readonly runtimeKey?: string | undefined
  /** A volume with speech models, mounted read-only at /models/whisper. */
  readonly whisperVolume?: string | undefined
  readonly authorize: DoorOptions["authorize"]
  /** Called once for a session, before its first sandbox. */
  readonly added: (session: string) => Promise<void>
}

export interface Fleet {
  readonly keeper: Keeper
  readonly sweeper: Sweeper
  readonly follower: HubFollower
  readonly pool: Pool
  readonly door: Door
  /**
   * The address of the gateway of a session's sandbox, fresh, if a browser can use it as it is. A sleeping sandbox is woken;
   * null: it does not run.
   */
  readonly gatewayUrl: (session: string) => Promise<string | null | undefined>
  readonly start: () => void
  readonly stop: () => Promise<void>
}

const BOOT_MS = 120_000
const RELINK_MS = 60_000
/** Less than a hub elsewhere waits for the answer. */
const WAKE_MS = 15_000
const LIFE_MS = 86_400_000
const IDLE_BUFFER_MS = 30 * 60_000
const VOLUME_MS = 7 * 86_400_000
const STORED_MS = 30 * 86_400_000
const HISTORY_MS = 90 * 86_400_000

export const createFleet = async (options: FleetOptions): Promise<Fleet> => {
  const { hub, provider, store, clock, lifeMs = LIFE_MS } = options
  const log = options.log.child({ component: "fleet" })
  const deployment = await store.deployment()
  const replica = crypto.randomUUID()
  const metrics = createMetrics()
  const quotas = createQuotas({ store, clock, quotas: options.quotas ?? {} })
  const runtimeKey = options.runtimeKey ?? options.version
  const note = (session: string, text: string) => {
    const written = hub.note(session, `fleet-${crypto.randomUUID()}`, text)
    written.catch((error: unknown) =>
      log.warn("fleet.note-lost", { session, error: String(error) }),
    )
  }
  const keeper: Keeper = createKeeper({
    metrics,
    roomRefusal: () => diskWatch?.refusal(),
    baseGone: (id) => bases.gone(id),
    store,
    provider,
    deployment,
    replica,
    clock,
    log,
    version: options.version,
    idleMs: options.idleMs,
    lifeMs,
    costPerHour: options.costPerHour,
    quotas,
    policy: {
      can: provider.can,
      bootMs: BOOT_MS,
      relinkMs: RELINK_MS,
      idleMs: options.idleMs,
      pausedMs: pausedTime(provider.can, {
        pausedMs: options.pausedMs,
        storedMs: options.storedMs ?? STORED_MS,
      }),
      minimumVersion: options.minimumVersion,
      hasFiles: provider.can.startsRunner,
    },
    note,
    specOf: createSandboxSpec({
      hub,
      deployment,
      version: options.version,
      resources: options.resources ?? {},
      environmentOf: options.environmentOf,
      pageOrigins: options.pageOrigins ?? [],
      idleMs: options.idleMs,
      lifeMs,
      hasVolumes: provider.can.volumes,
      whisperVolume: options.whisperVolume,
      base: () => bases.current(),
    }),
  })
  const { disks } = provider
  const diskWatch =
    disks &&
    options.diskLimit &&
    createDiskWatch({
      store,
      keeper,
      provider,
      disks,
      limit: options.diskLimit,
      deployment,
      replica,
      clock,
      log: log.child({ component: "disks" }),
      metrics,
      note,
    })
  const bases = createBaseSnapshots({
    store,
    keeper,
    hub,
    provider,
    runtimeKey,
    added: options.added,
    clock,
    log,
  })
  const follower = followHub({
    store,
    keeper,
    provider: provider.name,
    now: clock.now,
    log,
    metrics,
    added: options.added,
  })
  const sweeper = createSweeper({
    store,
    provider,
    keeper,
    deployment,
    replica,
    clock,
    log,
    metrics,
  })
  const caretaker = createCaretaker({
    store,
    keeper,
    provider,
    replica,
    clock,
    log,
    idleMs: options.idleMs,
    idleBufferMs: options.idleBufferMs ?? IDLE_BUFFER_MS,
    volumeMs: options.volumeMs ?? VOLUME_MS,
    historyMs: options.historyMs ?? HISTORY_MS,
    metrics,
    runtimeKey,
  })
  const pool = createPool({
    store,
    keeper,
    quotas,
    hub,
    provider,
    size: options.poolSize ?? 0,
    runtimeKey,
    environmentOf: options.environmentOf,
    added: options.added,
    replica,
    clock,
    log,
    metrics,
  })
  const door = createDoor({
    pool,
    bases,
    keeper,
    sweeper,
    store,
    provider,
    hub,
    follower,
    metrics,
    log,
    idleMs: options.idleMs,
    now: clock.now,
    authorize: options.authorize,
  })
  /** A person waits for it. */
  const awake = async (session: StoredSession): Promise<StoredSession | undefined> => {
    const { id, life } = session
    if (life.phase !== "running" && (await keeper.quotaRefusal(session))) return session
    await keeper.want(id, "running")
    const isThere = ({ life: now }: StoredSession) => now.phase === "running" || isGivenUp(now)
    return keeper.waitFor(id, isThere, AbortSignal.timeout(WAKE_MS))
  }
  return {
    keeper,
    sweeper,
    follower,
    pool,
    door,
    gatewayUrl: async (id) => {
      const known = await store.find(id)
      if (!known || known.life.wanted === "ended") return undefined
      const session = await awake(known)
      if (session?.life.phase !== "running") return null
      return (await gatewayUrlOf(provider, session)) ?? undefined
    },
    start: () => {
      keeper.start()
      sweeper.start()
      caretaker.start()
      pool.start()
      diskWatch?.start()
    },
    stop: async () => {
      await diskWatch?.stop()
      sweeper.stop()
      caretaker.stop()
      await pool.stop()
      await follower.idle()
      await keeper.stop()
      await store.close()
    },
  }
}
