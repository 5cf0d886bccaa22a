/** The quotas of owners: asked before a sandbox is started, and counted in the store, so that all replicas count together. */
import type { Clock } from "../lib/clock.ts"
import { POOL_TENANT } from "./core/pool.ts"
import {
  createRefusal,
  DAY_MS,
  dayOf,
  hasRoom,
  isWithinQuota,
  minutesRefusal,
  type QuotaRefusal,
  type Quotas,
  runningRefusal,
} from "./core/quota.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"

type Asking = Pick<StoredSession, "id" | "tenant"> & Partial<Pick<StoredSession, "life">>

export interface OwnerQuotas {
  /** Why the session cannot have a sandbox now; undefined if it can. Nothing is counted. */
  readonly refusalOf: (session: Asking) => Promise<QuotaRefusal | undefined>
  /**
   * Counts a sandbox that is about to be started, or refuses it. The same one again counts once. The place among those that
   * run is given to the pending call of the session; a claim gets it in its own transaction, by `hasRoom`.
   */
  readonly count: (
    session: Asking,
    generation: number,
    isNew: boolean,
  ) => Promise<QuotaRefusal | undefined>
  /** Whether the owner of these sessions may claim one more sandbox that runs. Absent: there is no limit. */
  readonly hasRoom: ((active: readonly StoredSession[]) => boolean) | undefined
  /** The sandbox was not started. */
  readonly uncount: (session: string, generation: number) => Promise<void>
}

export const createQuotas = (options: {
  readonly store: Pick<
    FleetStore,
    "activeOf" | "admit" | "creates" | "countCreate" | "uncountCreate" | "secondsOf"
  >
  readonly clock: Pick<Clock, "now">
  readonly quotas: Quotas
}): OwnerQuotas => {
  const { store, clock, quotas } = options
  const { running, createsPerHour, createsPerDay, minutesPerDay } = quotas
  const countsCreates = createsPerHour !== undefined || createsPerDay !== undefined

  const ofMinutes = async (tenant: string): Promise<QuotaRefusal | undefined> => {
    if (minutesPerDay === undefined) return undefined
    const at = clock.now()
    return minutesRefusal(await store.secondsOf(tenant, dayOf(at)), minutesPerDay, at)
  }

  /** Limits of what runs. The number of creates is checked where they are counted. */
  const now = async ({ id, tenant }: Asking): Promise<QuotaRefusal | undefined> => {
    // The pool belongs to the operator; its sandboxes count when an owner claims them.
    if (tenant === POOL_TENANT) return undefined
    if (running !== undefined && !isWithinQuota(id, await store.activeOf(tenant), running))
      return runningRefusal(running, clock.now())
    return ofMinutes(tenant)
  }

  /** The same for a start that follows at once: it has its place afterwards. */
  const admit = async (session: Asking, number: number): Promise<QuotaRefusal | undefined> => {
    const { id, tenant } = session
    if (tenant === POOL_TENANT) return undefined
    const refusal = await ofMinutes(tenant)
    if (refusal || running === undefined) return refusal
    return store.admit({ id, tenant }, number, (active) =>
      hasRoom(id, active, running) ? undefined : runningRefusal(running, clock.now()),
    )
  }

  return {
    refusalOf: async (session) => {
      const refusal = await now(session)
      const needsCreate = session.life?.ref === undefined && !session.life?.pending
      if (refusal || !countsCreates || !needsCreate || session.tenant === POOL_TENANT)
        return refusal
      const at = clock.now()
      return createRefusal(await store.creates(session.tenant, at - DAY_MS), quotas, at)
    },
    count: async (session, generation, isNew) => {
      const number = session.life?.pending?.number
      const refusal = await (number === undefined ? now(session) : admit(session, number))
      if (refusal || !isNew || !countsCreates || session.tenant === POOL_TENANT) return refusal
      const at = clock.now()
      return store.countCreate(
        { tenant: session.tenant, session: session.id, generation, at },
        (times) => createRefusal(times, quotas, at),
      )
    },
    hasRoom: running === undefined ? undefined : (active) => hasRoom(undefined, active, running),
    uncount: async (session, generation) => {
      if (countsCreates) await store.uncountCreate(session, generation)
    },
  }
}
