/**
 * Looks after sessions that have ended: removes the volume of each, and later its row. A session is looked at some times
 * only, so that the work of a round does not grow with the number of sessions that there have been. The volume of a session
 * whose row was deleted is removed after the same time.
 */
import type { Clock } from "../lib/clock.ts"
import { describeError, type Log } from "../lib/log.ts"
import { workspaceVolume } from "./core/names.ts"
import type { SandboxProvider } from "./providers/contract.ts"
import type { FleetStore, LeftVolume, StoredSession } from "./store/ports.ts"

export interface EndedSessionsOptions {
  readonly store: Pick<
    FleetStore,
    | "endedToTidy"
    | "tidyAgain"
    | "forgetEnded"
    | "find"
    | "openRecords"
    | "leftVolumes"
    | "lookAtVolume"
    | "dropVolume"
  >
  readonly provider: Pick<SandboxProvider, "name" | "can" | "removeVolume">
  readonly clock: Pick<Clock, "now">
  readonly log: Log
  /** The volume of an ended session is removed after this time. */
  readonly volumeMs: number
  /** Its row is kept for so long, and at least for a day: late calls and reports find that it has ended. */
  readonly historyMs: number
}

const AT_ONCE = 8
/** More wait for the next round. */
const PER_ROUND = 400
const RETRY_MS = 60 * 60_000
const DAY_MS = 86_400_000
const NEVER = Number.MAX_SAFE_INTEGER

export const createEndedSessions = (options: EndedSessionsOptions) => {
  const { store, provider, clock, log } = options
  const keptMs = Math.max(options.historyMs, DAY_MS)
  const firstLookMs = provider.can.volumes ? options.volumeMs : Math.min(options.volumeMs, keptMs)

  const isVolumeGone = async (id: string, at: string): Promise<boolean> => {
    // Its volume is at a provider that cannot be asked now.
    if (at !== provider.name) return false
    const name = workspaceVolume(id)
    // The sessions of an orchestrator share one volume, which outlives each of them.
    if (name !== `workspace-${id}` || !provider.can.volumes) return true
    const removed = await provider.removeVolume(name)
    if (removed.is === "ok" || removed.is === "missing") return true
    log.warn("fleet.volume-not-removed", { session: id, why: removed.why })
    return false
  }

  /** When the row is not needed any more. A conversation must not begin anew by a late call. */
  const endOf = ({ kind, threadKey, updatedAt }: StoredSession): number => {
    if (threadKey !== undefined) return NEVER
    return kind === "base" ? updatedAt : updatedAt + keptMs
  }

  const tidy = async (session: StoredSession): Promise<void> => {
    // First: what fails is tried again after a while, not in every round.
    await store.tidyAgain(session.id, clock.now() + RETRY_MS)
    if (!(await isVolumeGone(session.id, session.provider))) return
    const end = endOf(session)
    if (clock.now() >= end) await store.forgetEnded(session)
    else await store.tidyAgain(session.id, end)
  }

  /** `used`: sessions whose sandboxes exist. The sweep ends one whose session is unknown. */
  const tidyLeft = async (
    { session, provider: at }: LeftVolume,
    used: ReadonlySet<string>,
  ): Promise<void> => {
    await store.lookAtVolume(session, clock.now() + RETRY_MS)
    if (used.has(session)) return
    // A session that was recorded again has its volume until it ends, unless it is at another provider now.
    const again = await store.find(session)
    if (again?.provider === at || (await isVolumeGone(session, at))) await store.dropVolume(session)
  }

  const forEach = async <T>(
    all: readonly T[],
    sessionOf: (one: T) => string,
    work: (one: T) => Promise<void>,
  ): Promise<void> => {
    const alone = (one: T) =>
      work(one).catch((error: unknown) =>
        log.warn("fleet.care-failed", { session: sessionOf(one), error: describeError(error) }),
      )
    for (let from = 0; from < all.length; from += AT_ONCE)
      await Promise.all(all.slice(from, from + AT_ONCE).map(alone))
  }

  return {
    round: async (): Promise<void> => {
      const at = clock.now()
      const sessions = await store.endedToTidy(at - firstLookMs, at, PER_ROUND)
      await forEach(sessions, ({ id }) => id, tidy)
      const left = await store.leftVolumes(at - options.volumeMs, at, PER_ROUND)
      if (left.length === 0) return
      const open = await store.openRecords(provider.name)
      const used = new Set(open.map(({ session }) => session))
      await forEach(
        left,
        ({ session }) => session,
        (volume) => tidyLeft(volume, used),
      )
    },
  }
}
