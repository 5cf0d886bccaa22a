/** Follows the hub's reports: work wants a running sandbox, the runner's state goes to the keeper, an end ends the sandbox. */
import type { Log } from "../lib/log.ts"
import { isGivenUp, type Life } from "./core/life.ts"
import { variablesOf } from "./core/environment.ts"
import { gained, highest, type PromptCounts } from "./core/prompt-counts.ts"
import type { HubReport } from "./hub-port.ts"
import type { Keeper } from "./keeper.ts"
import type { Metrics } from "./metrics.ts"
import type { ProviderName } from "./providers/contract.ts"
import type { FleetStore, StoredSession } from "./store/ports.ts"

export interface FollowOptions {
  readonly store: FleetStore
  readonly keeper: Keeper
  readonly provider: ProviderName
  readonly now: () => number
  readonly log: Log
  readonly metrics?: Pick<Metrics, "add"> | undefined
  /** Called once for a session, before its first sandbox. */
  readonly added: (session: string) => Promise<void>
}

export interface HubFollower {
  /**
   * Records a session of the hub, unless it is known. `generation`: of the last sandbox that the hub knows. A record that was
   * deleted goes on there, so that a sandbox of before is found to be a stray.
   */
  readonly record: (
    session: string,
    owner: string,
    generation: number,
    more?: Partial<Pick<StoredSession, "threadKey" | "environment">>,
  ) => Promise<StoredSession>
  /** Resolves when the report is stored. The reports of one session are handled in their order. */
  readonly follow: (report: HubReport) => Promise<void>
  /** Resolves when nothing is being handled. */
  readonly idle: () => Promise<void>
}

const COUNTED = [
  ["done", "sandbox.prompt.ok", "prompts_total", { result: "ok" }],
  ["failed", "sandbox.prompt.fatal_fail", "prompts_total", { result: "failed" }],
  ["retried", "sandbox.prompt.recoverable_fail", "prompt_retries_total", {}],
  ["replaced", "sandbox.session.replaced", "session_replacements_total", {}],
] as const

/** A session needs its sandbox: the one that exists, or another one. */
export const logResolve = (log: Log, session: string, { ref, generation }: Life): void => {
  log.info("sandbox.resolve.start", { session })
  const event = ref === undefined ? "sandbox.resolve.recreate" : "sandbox.resolve.reuse"
  log.info(event, { session, generation })
}

export const followHub = (options: FollowOptions): HubFollower => {
  const { store, keeper } = options
  const lanes = new Map<string, Promise<void>>()
  /** As this process has reported them to the store: most reports do not change them. */
  const reported = new Map<string, PromptCounts>()

  /** Logs and counts what has happened to prompts since the last report to any replica. */
  const count = async (
    session: string,
    { counts, hasEnded }: HubReport["activity"],
  ): Promise<void> => {
    const last = reported.get(session)
    if (last && !hasEnded && COUNTED.every(([name]) => last[name] === counts[name])) return
    let added: PromptCounts | undefined
    await store.countPrompts(session, options.now(), (known) => {
      added = known && gained(known, counts)
      if (hasEnded) return undefined
      return known ? highest(known, counts) : counts
    })
    if (hasEnded) reported.delete(session)
    else reported.set(session, counts)
    for (const [name, event, counter, labels] of COUNTED) {
      const times = added?.[name] ?? 0
      if (times === 0) continue
      options.metrics?.add(counter, labels, times)
      options.log.info(event, { session, times })
    }
  }

  const record: HubFollower["record"] = async (id, owner, generation, more = {}) => {
    const known = await store.find(id)
    if (known) return known
    const stored = await keeper.add(
      {
        id,
        tenant: owner,
        threadKey: more.threadKey,
        provider: options.provider,
        environment: more.environment ?? {},
      },
      { generation },
    )
    await options.added(stored.id)
    return stored
  }

  const handle = async ({ session, owner, activity }: HubReport): Promise<void> => {
    const { queued, working, generation, connected, hasEnded, usedAt } = activity
    await count(session, activity)
    const waits = queued > 0 || working > 0
    const known = await store.find(session)
    if (!known && (hasEnded || !waits || activity.hasOtherRunner)) return
    // The time of its last change decides when its volume is removed.
    if (known?.life.phase === "ended") return
    const environment = variablesOf(activity.parent, activity.wish)
    const stored = known ?? (await record(session, owner, generation, { environment }))
    if (hasEnded) return void (await keeper.want(session, "ended"))
    // Another program has taken the session over: its sandbox of before is not needed.
    if (activity.hasOtherRunner) return void (await keeper.want(session, "asleep"))
    // The prompts are known first: a sandbox that is asked to sleep from now on waits for them.
    const now = { generation, linked: connected, busy: working > 0, waits, usedAt }
    const { life } = (await keeper.runner(session, now)) ?? stored
    if (waits && (life.wanted !== "running" || isGivenUp(life))) {
      logResolve(options.log, session, life)
      await keeper.wantForPrompts(session)
    }
  }

  return {
    record,
    follow: (report) => {
      const { session } = report
      const before = lanes.get(session) ?? Promise.resolve()
      const handled = before.then(() => handle(report))
      const settled = handled
        .catch((error: unknown) =>
          options.log.warn("fleet.follow-failed", { session, error: String(error) }),
        )
        .finally(() => {
          if (lanes.get(session) === settled) lanes.delete(session)
        })
      lanes.set(session, settled)
      return handled
    },
    idle: async () => {
      while (lanes.size > 0) await Promise.all(lanes.values())
    },
  }
}
