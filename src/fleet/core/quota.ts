/** How many sandboxes an owner may have at the same time and start in a time. Pure. */
import { isInDoubt, type Life } from "./life.ts"

interface Counted {
  readonly id: string
  readonly life: Life
  readonly isAdmitted?: boolean | undefined
}

/** The limits of each owner; an absent one does not count. */
export interface Quotas {
  /** Sandboxes that run at the same time. */
  readonly running?: number | undefined
  readonly createsPerHour?: number | undefined
  readonly createsPerDay?: number | undefined
  /** Minutes that all sandboxes of the owner run on one day, in UTC. */
  readonly minutesPerDay?: number | undefined
}

export interface QuotaRefusal {
  /** Names the limit, for the caller of the API. */
  readonly why: string
  /** For the conversation whose sandbox waits. */
  readonly note: string
  /** When it is worth asking again. */
  readonly retryAt: number
}

const HOUR_MS = 3_600_000
export const DAY_MS = 86_400_000
const RUNNING_RETRY_MS = 30_000

const isStarting = ({ pending }: Life): boolean =>
  pending?.call.do === "create" || pending?.call.do === "resume"

/** A sandbox that costs something: it runs, or its start was admitted. A paused or saved one does not count. */
const hasPlace = ({ life, isAdmitted }: Counted): boolean =>
  isAdmitted === true || (life.ref !== undefined && life.phase !== "paused")

/** Whether one more may run, besides those that have a place. Decided in the transaction that gives the place. */
export const hasRoom = (
  session: string | undefined,
  ofOwner: readonly Counted[],
  quota: number,
): boolean => ofOwner.filter((one) => one.id !== session && hasPlace(one)).length < quota

/** An admission lasts until it is known what became of the call: a create without an answer may have made a sandbox. */
export const keepsAdmission = (life: Life): boolean =>
  isStarting(life) || isInDoubt(life) || life.unsure === true

const isCounted = (one: Counted): boolean => isStarting(one.life) || hasPlace(one)

/** 0: it runs. Otherwise when its start was decided. */
const since = ({ life }: Counted): number => (isStarting(life) ? (life.pending?.since ?? 0) : 0)

/**
 * Whether the session will have its sandbox soon, for a caller that waits for it. Sandboxes that exist come first, then those
 * that are being created or resumed, in their order. Whether it may start is decided by `hasRoom`.
 */
export const isWithinQuota = (
  session: string,
  ofOwner: readonly Counted[],
  quota: number,
): boolean => {
  const ordered = ofOwner
    .filter(isCounted)
    .toSorted((a, b) => since(a) - since(b) || (a.id < b.id ? -1 : 1))
  const place = ordered.findIndex(({ id }) => id === session)
  return (place === -1 ? ordered.length : place) < quota
}

const sandboxes = (count: number): string => (count === 1 ? "1 sandbox" : `${count} sandboxes`)

export const runningRefusal = (running: number, at: number): QuotaRefusal => ({
  why: `all ${sandboxes(running)} of this owner are in use: pause or end one, or try again later`,
  note: `All ${sandboxes(running)} of the owner of this session are in use. The session starts when one of them sleeps or ends.`,
  retryAt: at + RUNNING_RETRY_MS,
})

/** `times`: when the owner's sandboxes of the last day were started, in any order. */
export const createRefusal = (
  times: readonly number[],
  { createsPerHour, createsPerDay }: Quotas,
  at: number,
): QuotaRefusal | undefined => {
  const windows = [
    ["hour", HOUR_MS, createsPerHour],
    ["day", DAY_MS, createsPerDay],
  ] as const
  const refusals = windows.flatMap(([name, ms, most]) => {
    const inside = times.filter((time) => time > at - ms).toSorted((a, b) => a - b)
    if (most === undefined || inside.length < most) return []
    // When so many have left the window that one is free.
    const freed = inside[inside.length - most] ?? at
    const why = `this owner has started ${sandboxes(most)} in the last ${name}, which is the limit: try again later`
    const note = `The owner of this session has started ${sandboxes(most)} in the last ${name}, which is the limit. The session starts when that is allowed again.`
    return [{ why, note, retryAt: freed + ms }]
  })
  return refusals.toSorted((a, b) => b.retryAt - a.retryAt)[0]
}

/** The day in UTC that the time belongs to, as a number. */
export const dayOf = (at: number): number => Math.floor(at / DAY_MS)

/** `seconds`: how long the owner's sandboxes have run on the day of `at`. */
export const minutesRefusal = (
  seconds: number,
  minutesPerDay: number | undefined,
  at: number,
): QuotaRefusal | undefined =>
  minutesPerDay === undefined || seconds < minutesPerDay * 60
    ? undefined
    : {
        why: `the sandboxes of this owner have run for ${minutesPerDay} minutes today, which is the limit: try again tomorrow (UTC)`,
        note: `The sandboxes of the owner of this session have run for ${minutesPerDay} minutes today, which is the limit. The session starts tomorrow (UTC).`,
        retryAt: (dayOf(at) + 1) * DAY_MS,
      }
