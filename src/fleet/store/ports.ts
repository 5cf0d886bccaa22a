/** What the fleet needs of its database. SQLite serves one process, PostgreSQL serves many replicas. */
import type { SandboxRecord, WhyEnded } from "../core/history.ts"
import type { Life } from "../core/life.ts"
import type { PromptCounts } from "../core/prompt-counts.ts"
import type { QuotaRefusal } from "../core/quota.ts"
import type { StoredSnapshot } from "../core/snapshots.ts"
import type { ProviderName } from "../providers/contract.ts"

/**
 * `hub`: a session of this deployment's hub. `external`: another session agent starts and stops its sandbox over the API,
 * and the fleet hears nothing of its runner. `pool`: started ahead, without an owner. `claimed`: taken out of the pool; the
 * hub may not know its owner yet. `base`: its sandbox exists to be made a base snapshot.
 */
export const sessionKinds = ["hub", "external", "pool", "claimed", "base"] as const
export type SessionKind = (typeof sessionKinds)[number]

export interface NewSession {
  readonly id: string
  readonly kind?: SessionKind
  /** The owner of the session: another tenant does not see it. */
  readonly tenant: string
  /** The conversation that it belongs to; unique per tenant. */
  readonly threadKey?: string | undefined
  /** Stored with the first create; it never changes. */
  readonly provider: ProviderName
  /** Variables that the caller gave for its sandboxes. */
  readonly environment: Readonly<Record<string, string>>
  /** What a sandbox of the pool was started with. Only sessions that need the same may have it. */
  readonly poolKey?: string | undefined
}

export interface StoredSession extends NewSession {
  readonly kind: SessionKind
  /** Of a claimed session: the person who made it. The hub stores it when it hears of the owner. */
  readonly creator?: string | undefined
  /** Of a claimed session: until then only the replica that claimed it tells the hub of its owner, or puts it back. */
  readonly heldUntil?: number | undefined
  readonly life: Life
  /** Increases with every change. */
  readonly rev: number
  /** The replica that performs the pending call, and until when it is believed to be alive. */
  readonly caller: string | undefined
  readonly callUntil: number | undefined
  readonly dueAt: number | undefined
  /** The start of its sandbox was admitted, and it is not known yet what became of it. */
  readonly isAdmitted?: boolean | undefined
  readonly createdAt: number
  readonly updatedAt: number
}

export interface SessionChange extends Pick<
  StoredSession,
  "life" | "caller" | "callUntil" | "dueAt"
> {
  /** From all records of the session's sandboxes: those to add or to change, in the same transaction. */
  readonly records?: ((known: readonly SandboxRecord[]) => readonly SandboxRecord[]) | undefined
  /** A new snapshot of the session, which is remembered in the same transaction. */
  readonly snapshot?: StoredSnapshot | undefined
}

export type RememberedCall =
  | { readonly is: "new" }
  | { readonly is: "running" }
  | { readonly is: "other" }
  | { readonly is: "known"; readonly status: number; readonly body: string }

/** The place after which a page of sessions begins. */
export interface PageCursor {
  readonly createdAt: number
  readonly id: string
}

export interface PhaseCount {
  readonly provider: string
  readonly phase: string
  readonly count: number
}

/** A sandbox that an owner starts. */
export interface CountedCreate {
  readonly tenant: string
  readonly session: string
  readonly generation: number
  readonly at: number
}

/** Seconds that sandboxes of an owner ran. */
export interface RanSeconds {
  readonly provider: string
  readonly tenant: string
  readonly seconds: number
}

/** The records of all sandboxes that sessions have had. */
export interface RecordsPort {
  /** The records of a session's sandboxes that belong to this owner, the oldest first; at most the newest `limit`. */
  readonly history: (
    session: string,
    tenant: string,
    limit: number,
  ) => Promise<readonly SandboxRecord[]>
  /** The newest record of a sandbox with this ref. */
  readonly recordOf: (ref: string) => Promise<SandboxRecord | undefined>
  /** Counts the seconds of all running sandboxes until now, in their records and for their owners' day. */
  readonly countSeconds: (at: number) => Promise<readonly RanSeconds[]>
  /** The sandboxes of this provider whose end is not recorded. */
  readonly openRecords: (
    provider: string,
  ) => Promise<readonly Pick<SandboxRecord, "session" | "ref" | "createdAt">[]>
  readonly endRecord: (session: string, ref: string, why: WhyEnded, at: number) => Promise<void>
  /** Deletes the records of sandboxes that ended before this time. */
  readonly purgeHistory: (before: number) => Promise<void>
}

/** The volume of a session whose row was deleted. */
export interface LeftVolume {
  readonly session: string
  readonly provider: string
}

export interface VolumesPort {
  /** Volumes without a time for a look that were left before `leftBefore`, and those whose time has come. */
  readonly leftVolumes: (
    leftBefore: number,
    at: number,
    limit: number,
  ) => Promise<readonly LeftVolume[]>
  /** Sets the time of the next look. */
  readonly lookAtVolume: (session: string, at: number) => Promise<void>
  /** The volume is gone, or belongs to a session again. */
  readonly dropVolume: (session: string) => Promise<void>
}

/** What is counted for quotas and counters. */
export interface CountsPort {
  /** When the owner's sandboxes were started, after this time. */
  readonly creates: (tenant: string, after: number) => Promise<readonly number[]>
  /**
   * Counts a create, unless `decide` refuses it from the times of the owner's creates of the last day. One transaction that
   * excludes other creates of this owner. A create that is counted already is allowed and counts once.
   */
  readonly countCreate: (
    create: CountedCreate,
    decide: (times: readonly number[]) => QuotaRefusal | undefined,
  ) => Promise<QuotaRefusal | undefined>
  readonly uncountCreate: (session: string, generation: number) => Promise<void>
  /**
   * Replaces the stored counts of a session's prompts by what `decide` makes of them, and deletes them if that is undefined.
   * One transaction that excludes others for this session.
   */
  readonly countPrompts: (
    session: string,
    at: number,
    decide: (known: PromptCounts | undefined) => PromptCounts | undefined,
  ) => Promise<void>
  /** How long the owner's sandboxes ran on this day, as far as it is counted. */
  readonly secondsOf: (tenant: string, day: number) => Promise<number>
}

export interface FleetStore extends RecordsPort, VolumesPort, CountsPort {
  /** Random and stored once: the label of every sandbox that belongs to this deployment. */
  readonly deployment: () => Promise<string>
  /** Adds a session. If its id or its thread exists, the existing one is returned and nothing changes. */
  readonly add: (session: NewSession, life: Life, at: number) => Promise<StoredSession>
  /** Adds a session in place of the one with its id, in one transaction: no reader finds neither. */
  readonly replace: (session: NewSession, life: Life, at: number) => Promise<StoredSession>
  readonly find: (id: string) => Promise<StoredSession | undefined>
  readonly findThread: (tenant: string, threadKey: string) => Promise<StoredSession | undefined>
  /** The session whose present sandbox has this ref at its provider. */
  readonly findRef: (ref: string) => Promise<StoredSession | undefined>
  /** Sessions that have not ended: for rounds over the whole fleet and rare requests of the operator, not for others. */
  readonly present: () => Promise<readonly StoredSession[]>
  /** Sessions in the order in which they were added, after the cursor. */
  readonly page: (after: PageCursor | undefined, limit: number) => Promise<readonly StoredSession[]>
  /** Sessions of an owner that have a sandbox, a call under way or an admitted start. */
  readonly activeOf: (tenant: string) => Promise<readonly StoredSession[]>
  /** How many sessions are in each phase, without those that have ended. */
  readonly phases: () => Promise<readonly PhaseCount[]>
  /** Sessions of the kinds `pool` and `claimed`. */
  readonly pooled: () => Promise<readonly StoredSession[]>
  /**
   * Takes the oldest running sandbox with this key out of the pool, in one transaction: no other claim gets it. If the thread
   * has a session, that one is returned. Undefined: the pool has none. `among`: only one of these.
   */
  readonly claim: (
    poolKey: string,
    to: {
      readonly tenant: string
      readonly threadKey?: string | undefined
      readonly among?: readonly string[] | undefined
      readonly creator?: string | undefined
      readonly heldUntil?: number | undefined
      /** From the active sessions of the owner: false refuses the claim. It excludes other claims and admissions. */
      readonly hasRoom?: ((active: readonly StoredSession[]) => boolean) | undefined
    },
    at: number,
  ) => Promise<StoredSession | undefined>
  /** Puts a claimed session back into the pool. The hub must not have given it to its owner. */
  readonly unclaim: (id: string, poolTenant: string, at: number) => Promise<void>
  /** The hub knows the owner of a claimed session: from now on it is one of the hub's sessions. */
  readonly bind: (id: string) => Promise<void>
  /**
   * Reads, decides and writes in one short transaction that excludes every other change of this session. `decide` is
   * synchronous; no call to a provider happens inside. Without a result nothing is written.
   */
  readonly change: (
    id: string,
    at: number,
    decide: (session: StoredSession) => SessionChange | undefined,
  ) => Promise<StoredSession | undefined>
  /**
   * Calls `changed` after a stored change of a session, by this process at once, and by another replica as soon as the
   * database says so. Undefined: any session may have changed. The returned function ends the watch.
   */
  readonly watch: (changed: (session: string | undefined) => void) => () => void
  /** After so long a waiter reads again: seconds if `watch` hears of all changes, and otherwise less. */
  readonly pollMs: () => number
  /** Extends the time of a call that is still under way. False if it is not this replica's any more. */
  readonly renewCall: (
    id: string,
    caller: string,
    number: number,
    until: number,
  ) => Promise<boolean>
  /** Sessions whose due time has come or whose caller has not renewed its call. */
  readonly due: (at: number, limit: number) => Promise<readonly string[]>
  /** True if this replica has the lease of that name until `until`. */
  readonly lease: (name: string, owner: string, at: number, until: number) => Promise<boolean>
  /**
   * The first request with this key is `new`; another one with it gets its answer, or is refused if it asks something else.
   * A first request without an answer after eight minutes counts as lost.
   */
  readonly remember: (
    tenant: string,
    key: string,
    digest: string,
    at: number,
  ) => Promise<RememberedCall>
  /** Stores the answer to the key for a day, or with `keep: false` forgets the key. */
  readonly settle: (
    tenant: string,
    key: string,
    status: number,
    body: string,
    keep: boolean,
  ) => Promise<void>
  /**
   * Admits the pending call of this number, unless `decide` refuses it from the active sessions of the owner. One transaction
   * that excludes other admissions and claims of this owner. The admission ends with a change of the life (`keepsAdmission`).
   */
  readonly admit: (
    session: Pick<StoredSession, "id" | "tenant">,
    number: number,
    decide: (active: readonly StoredSession[]) => QuotaRefusal | undefined,
  ) => Promise<QuotaRefusal | undefined>
  /** Remembers a snapshot until it is removed at its provider. A known id changes nothing. */
  readonly addSnapshot: (snapshot: StoredSnapshot) => Promise<void>
  readonly snapshots: () => Promise<readonly StoredSnapshot[]>
  /** The newest snapshot of this sandbox, also after the sandbox has ended. */
  readonly snapshotOf: (ref: string) => Promise<StoredSnapshot | undefined>
  readonly dropSnapshot: (id: string) => Promise<void>
  /** Deletes leases that have ended, answers that are older than a day, and counts that no quota needs. */
  readonly purge: (at: number) => Promise<void>
  /** Ended sessions without a time for a look that ended before `endedBefore`, and those whose time has come. */
  readonly endedToTidy: (
    endedBefore: number,
    at: number,
    limit: number,
  ) => Promise<readonly StoredSession[]>
  /** Sets the time of the next look at an ended session. */
  readonly tidyAgain: (id: string, at: number) => Promise<void>
  /** Deletes the row of an ended session, unless it was changed since it was read. */
  readonly forgetEnded: (session: Pick<StoredSession, "id" | "rev">) => Promise<void>
  /**
   * Deletes the row. Sandboxes that still exist are left to the sweep, snapshots to the caretaker. `leftAt`: so is the volume,
   * which is remembered in the same transaction; without it the volume does not exist any more.
   */
  readonly forget: (id: string, leftAt?: number) => Promise<void>
  readonly close: () => Promise<void>
}
