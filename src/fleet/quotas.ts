/** The quotas of owners: asked before a sandbox is started, and counted in the store, so that all replicas count together. */
import type { Clock } from "../lib/clock.ts"
import { POOL_TENANT } from "./core/pool.ts"
import {
  createRefusal,
  DAY_MS,
  dayOf,
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
  /** Counts a sandbox that is about to be started, or refuses it. The same one again counts once. */
  readonly count: (
    session: Asking,
    generation: number,
    isNew: boolean,
  ) => Promise<QuotaRefusal | undefined>
  /** The sandbox was not started. */
  readonly uncount: (session: string, generation: number) => Promise<void>
}

export const createQuotas = (options: {
  readonly store: Pick<
    FleetStore,
    "activeOf" | "creates" | "countCreate" | "uncountCreate" | "secondsOf"
  >
  readonly clock: Pick<Clock, "now">
  readonly quotas: Quotas
}): OwnerQuotas => {
  const { store, clock, quotas } = options
  const { running, createsPerHour, createsPerDay, minutesPerDay } = quotas
  const countsCreates = createsPerHour !== undefined || createsPerDay !== undefined

  /** Limits of what runs. The number of creates is checked where they are counted. */
  const now = async ({ id, tenant }: Asking): Promise<QuotaRefusal | undefined> => {
    // The pool belongs to the operator; its sandboxes count when an owner claims them.
    if (tenant === POOL_TENANT) return undefined
    const at = clock.now()
    if (running !== undefined && !isWithinQuota(id, await store.activeOf(tenant), running))
      return runningRefusal(running, at)
    if (minutesPerDay === undefined) return undefined
    return minutesRefusal(await store.secondsOf(tenant, dayOf(at)), minutesPerDay, at)
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
      const refusal = await now(session)
      if (refusal || !isNew || !countsCreates || session.tenant === POOL_TENANT) return refusal
      const at = clock.now()
      return store.countCreate(
        { tenant: session.tenant, session: session.id, generation, at },
        (times) => createRefusal(times, quotas, at),
      )
    },
    uncount: async (session, generation) => {
      if (countsCreates) await store.uncountCreate(session, generation)
    },
  }
}
