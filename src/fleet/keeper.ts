/**
 * Keeps the sandboxes of all sessions: feeds events to their machines, stores the result, then makes the calls. It is the
 * only module that changes a life.
 */
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../lib/log.ts"
import { afterAnswer, afterCreate, blockedFor, closedBreaker } from "./core/breaker.ts"
import { changesHistory, recordsAfter, secondsAdded } from "./core/history.ts"
import type { Answer, Call, Life, LifeEffect, LifeEvent, LifePolicy } from "./core/life.ts"
import { newLife } from "./core/life.ts"
import { notes } from "./core/life-notes.ts"
import { dueAt, step } from "./core/life-state.ts"
import { answerElsewhere } from "./core/other-provider.ts"
import { POOL_BOOT_MS } from "./core/pool.ts"
import type { Metrics } from "./metrics.ts"
import { perform, type PerformOptions } from "./perform.ts"
import type { SandboxInfo } from "./providers/contract.ts"
import { createQuotas, type OwnerQuotas } from "./quotas.ts"
import type { FleetStore, NewSession, SessionKind, StoredSession } from "./store/ports.ts"
import { createWaiters, type Waiters } from "./wait-for-change.ts"

export interface KeeperOptions extends PerformOptions {
  readonly store: FleetStore
  readonly policy: LifePolicy
  readonly clock: Clock
  readonly log: Log
  /** The name of this process among the replicas. */
  readonly replica: string
  /** Writes into the conversation of a session. */
  readonly note: (session: string, text: string) => void
  readonly metrics?: Pick<Metrics, "called" | "add"> | undefined
  /** The limits of each owner. */
  readonly quotas?: OwnerQuotas | undefined
  /** Why no sandbox may start now, whose ever it is. Absent, or undefined: they may. */
  readonly roomRefusal?: (() => string | undefined) | undefined
  /** What an hour of a sandbox costs, for its record. */
  readonly costPerHour?: number | undefined
  /** After every stored change. */
  readonly changed?: (session: StoredSession) => void
}

export interface Keeper {
  /**
   * `generation`: of the last sandbox of a record that was deleted. `snapshot`: the first sandbox is made from it. `idleMs`:
   * how long the provider lets its sandboxes be idle.
   */
  readonly add: (
    session: NewSession,
    from?: { readonly generation?: number; readonly snapshot?: string; readonly idleMs?: number },
  ) => Promise<StoredSession>
  /** The same for a session whose record is made anew. Its sandbox must have ended. */
  readonly addAgain: Keeper["add"]
  readonly want: (
    session: string,
    wanted: Life["wanted"],
    deep?: boolean,
  ) => Promise<StoredSession | undefined>
  /** Prompts wait for the sandbox: it runs, or runs them before it sleeps as it was asked to. */
  readonly wantForPrompts: (session: string) => Promise<StoredSession | undefined>
  /** Ends a sandbox of the pool, unless a session has claimed it meanwhile. */
  readonly endUnclaimed: (session: string) => Promise<StoredSession | undefined>
  /** The state of the runner's connection, repeated as often as it is known. */
  readonly runner: (
    session: string,
    now: Omit<LifeEvent & { readonly type: "runner" }, "type" | "at">,
  ) => Promise<StoredSession | undefined>
  readonly seen: (session: string, found: readonly SandboxInfo[]) => Promise<void>
  readonly waitFor: Waiters["waitFor"]
  /** Why the owner of this session may not have a sandbox for it now. */
  readonly quotaRefusal: OwnerQuotas["refusalOf"]
  /** Handles what is due now, also calls of replicas that died. */
  readonly tick: () => Promise<void>
  readonly start: () => void
  /** Resolves when the calls under way have been answered. */
  readonly stop: () => Promise<void>
}

const CALL_LEASE_MS = 30_000
const RENEW_MS = 10_000
const TICK_MS = 1000
const DUE_AT_ONCE = 200
/** Another sandbox of the owner may end at any time. */
const QUOTA_RETRY_MS = 5000
/** Files may be deleted at any time. */
const ROOM_RETRY_MS = 5000
const NEVER_MS = 100 * 365 * 86_400_000

export const createKeeper = (options: KeeperOptions): Keeper => {
  const { store, clock, log, replica } = options
  // Nothing is heard of the runner of another session agent, which also decides when its sandbox sleeps.
  const external: LifePolicy = {
    ...options.policy,
    can: { ...options.policy.can, startsRunner: false, supportsPause: false },
    idleMs: NEVER_MS,
    pausedMs: undefined,
    minimumVersion: undefined,
    hasSuccessors: false,
  }
  const base: LifePolicy = { ...options.policy, idleMs: NEVER_MS, pausedMs: undefined }
  // It waits for a session, for any time. Nothing is lost with one that does not start.
  const pool: LifePolicy = { ...base, bootMs: Math.min(base.bootMs, POOL_BOOT_MS) }
  const policies: Partial<Record<SessionKind, LifePolicy>> = { external, base, pool }
  const policyOf = ({ kind }: StoredSession): LifePolicy => policies[kind] ?? options.policy
  const quotas = options.quotas ?? createQuotas({ store, clock, quotas: {} })
  let breaker = closedBreaker
  let stopped = false
  let cancelTick = () => {}
  const calls = new Set<Promise<void>>()
  const waiters = createWaiters(store, clock)

  const feed = async (
    id: string,
    eventOf: (session: StoredSession) => LifeEvent | undefined,
  ): Promise<StoredSession | undefined> => {
    const at = clock.now()
    let effects: readonly LifeEffect[] = []
    let before: Life["phase"] | undefined
    let ran = 0
    const session = await store.change(id, at, (stored) => {
      const event = eventOf(stored)
      if (!event) return undefined
      const policy = policyOf(stored)
      const [life, made] = step(stored.life, event, policy)
      const lifeStep = { before: stored.life, event, after: life }
      effects = made
      before = stored.life.phase
      const { snapshot } = life
      const isNew = life.pending !== undefined && life.number !== stored.life.number
      return {
        life,
        dueAt: dueAt(life, policy, at),
        caller: isNew ? replica : life.pending ? stored.caller : undefined,
        callUntil: isNew ? at + CALL_LEASE_MS : life.pending ? stored.callUntil : undefined,
        ...(snapshot &&
          snapshot.id !== stored.life.snapshot?.id && {
            snapshot: { id: snapshot.id, session: id, createdAt: at, ref: stored.life.ref },
          }),
        ...(changesHistory(lifeStep) && {
          records: (records) => {
            const { tenant, provider } = stored
            const owner = { session: id, tenant, provider, costPerHour: options.costPerHour }
            const changed = recordsAfter(records, lifeStep, owner, at)
            ran = secondsAdded(records, changed)
            return changed
          },
        }),
      }
    })
    if (!session) return undefined
    if (ran > 0)
      options.metrics?.add(
        "seconds_total",
        { provider: session.provider, tenant: session.tenant },
        ran,
      )
    if (before !== undefined && before !== session.life.phase)
      log.info("sandbox.phase", { session: id, from: before, to: session.life.phase })
    for (const effect of effects) {
      if (effect.do === "note") {
        // A conversation that has not begun gets no note about what happened before it.
        if (session.kind !== "pool" && session.kind !== "base") options.note(id, effect.text)
      } else if (!stopped) track(makeCall(session, effect.number, effect.call))
    }
    options.changed?.(session)
    return session
  }

  const track = (call: Promise<void>) => {
    calls.add(call)
    void call.finally(() => calls.delete(call))
  }

  /** The sandbox waits, and the conversation gets one note about it. */
  const refuseAboveQuota = async (session: StoredSession, call: Call) => {
    const { id, tenant, life } = session
    const refusal = await quotas.count(session, life.generation, call.do === "create")
    if (!refusal) return undefined
    const { why, note } = refusal
    log.warn("fleet.quota-full", { session: id, tenant, why })
    if (life.lastError !== why) options.note(id, note)
    return { is: "blocked", why, afterMs: QUOTA_RETRY_MS } as const
  }

  const answerOf = async (session: StoredSession, call: Call): Promise<Answer> => {
    const at = clock.now()
    const elsewhere = answerElsewhere(session.provider, options.provider.name)
    if (elsewhere) {
      const { id, life } = session
      if (life.wanted === "running" && life.lastError !== elsewhere.why)
        options.note(id, notes.delayed(elsewhere.why))
      return elsewhere
    }
    const blocked = call.do === "create" ? blockedFor(breaker, at) : 0
    if (blocked > 0)
      return { is: "blocked", why: "the sandbox provider refuses new sandboxes", afterMs: blocked }
    const noRoom =
      call.do === "create" || call.do === "resume" ? options.roomRefusal?.() : undefined
    if (noRoom !== undefined) {
      const { id, kind, life } = session
      const isAwaited = life.wanted === "running" && kind !== "pool" && kind !== "base"
      if (isAwaited && life.lastError !== noRoom) options.note(id, notes.noRoom)
      return { is: "blocked", why: noRoom, afterMs: ROOM_RETRY_MS }
    }
    const [before, trial] = [breaker, call.do === "create" ? afterCreate(breaker, at) : breaker]
    breaker = trial
    // A paused sandbox that runs only to be saved is not one more that its owner uses.
    const starts = ["create", "resume"].includes(call.do) && session.life.wanted === "running"
    const full = starts ? await refuseAboveQuota(session, call) : undefined
    if (full) {
      // It was not made: the next one is the trial.
      if (breaker === trial) breaker = before
      return full
    }
    const name = `provider.${call.do}`
    const fields = {
      provider: options.provider.name,
      session: session.id,
      generation: session.life.generation,
    }
    log.info(`${name}.start`, fields)
    const answer = await perform(options, session, call)
    const ms = clock.now() - at
    options.metrics?.called(options.provider.name, call.do, answer.is, ms)
    if (call.do === "terminate" && call.ref !== session.life.ref && answer.is === "ok")
      options.metrics?.add("strays_total", { provider: options.provider.name })
    if (call.do === "restart" || (call.do === "probe" && session.life.phase === "booting")) {
      log.info("sandbox.health.retry", fields)
      options.metrics?.add("health_retries_total", { provider: options.provider.name })
    }
    if (answer.is === "ok" || answer.is === "missing")
      log.info(`${name}.ok`, { ...fields, ms, is: answer.is })
    else log.warn(`${name}.failed`, { ...fields, ms, is: answer.is, why: answer.why })
    if (call.do === "create" && (answer.is === "ok" || answer.is === "refused"))
      breaker = afterAnswer(breaker, answer.is === "refused", clock.now())
    // What the provider has refused to make is not the owner's.
    if (call.do === "create" && answer.is === "refused")
      await quotas.uncount(session.id, session.life.generation)
    return answer
  }

  const makeCall = async (session: StoredSession, number: number, call: Call): Promise<void> => {
    const renew = (): (() => void) =>
      clock.after(RENEW_MS, () => {
        const until = clock.now() + CALL_LEASE_MS
        store.renewCall(session.id, replica, number, until).catch((error: unknown) => {
          log.warn("fleet.call-not-renewed", { session: session.id, error: String(error) })
        })
        cancel = renew()
      })
    let cancel = renew()
    // The database may fail while the quota is asked: the call is in doubt then, and is not renewed for any time.
    const answer = await answerOf(session, call).catch((error: unknown): Answer => ({
      is: "unknown",
      why: describeError(error),
    }))
    cancel()
    try {
      await feed(session.id, () => ({ type: "answer", number, call, answer, at: clock.now() }))
    } catch (error) {
      // The call's lease runs out, and the session is looked at again.
      log.warn("fleet.answer-not-stored", { session: session.id, error: String(error) })
    }
  }

  const tick = async () => {
    const at = clock.now()
    for (const id of await store.due(at, DUE_AT_ONCE)) {
      await feed(id, ({ life, callUntil }) =>
        life.pending && callUntil !== undefined && callUntil <= at
          ? { type: "lost", number: life.pending.number, at }
          : { type: "due", at },
      ).catch((error: unknown) =>
        // It is due in the next tick as well. The others do not wait for it.
        log.warn("fleet.tick-failed", { session: id, error: describeError(error) }),
      )
    }
  }

  const loop = async () => {
    try {
      await tick()
    } catch (error) {
      log.warn("fleet.tick-failed", { error: String(error) })
    }
    if (!stopped) cancelTick = clock.after(TICK_MS, () => void loop())
  }

  type Adding = Parameters<Keeper["add"]>
  const lifeOf = ({ generation = 0, snapshot, idleMs }: NonNullable<Adding[1]> = {}): Life => ({
    ...newLife,
    generation,
    ...(idleMs !== undefined && { idleMs }),
    ...(snapshot !== undefined && { snapshot: { id: snapshot, version: options.version } }),
  })

  return {
    tick,
    quotaRefusal: quotas.refusalOf,
    add: (session, from) => store.add(session, lifeOf(from), clock.now()),
    addAgain: (session, from) => store.replace(session, lifeOf(from), clock.now()),
    want: (id, wanted, deep = false) =>
      feed(id, () => ({ type: "want", wanted, deep, at: clock.now() })),
    wantForPrompts: (id) =>
      feed(id, () => ({ type: "want", wanted: "running", forPrompts: true, at: clock.now() })),
    endUnclaimed: (id) =>
      feed(id, ({ kind }) =>
        kind === "pool" ? { type: "want", wanted: "ended", at: clock.now() } : undefined,
      ),
    runner: (id, now) => feed(id, () => ({ type: "runner", ...now, at: clock.now() })),
    seen: async (id, found) => {
      // The list of one provider says nothing about the sandboxes of another.
      await feed(id, ({ provider }) =>
        provider === options.provider.name ? { type: "seen", found, at: clock.now() } : undefined,
      )
    },
    waitFor: waiters.waitFor,
    start: () => void loop(),
    stop: async () => {
      stopped = true
      cancelTick()
      while (calls.size > 0) await Promise.allSettled(calls)
      waiters.stop()
    },
  }
}
