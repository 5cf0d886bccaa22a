/** Decides the next call of a sandbox's life: one at a time, doubt and strays first. */
import { SNAPSHOT_BEGIN_MS } from "../../wire/snapshot-times.ts"
import type { Call, Life, LifePolicy } from "./life.ts"

/** Before the provider's end of a sandbox: when the session moves at the next idle moment, and when it is saved anyway. */
const ROTATE_MS = 10 * 60_000
const FORCE_MS = 2 * 60_000

export const mustRotate = (life: Life, at: number): boolean =>
  life.expiresAt !== undefined && at >= life.expiresAt - ROTATE_MS
const mustSave = (life: Life, at: number): boolean =>
  life.expiresAt !== undefined && at >= life.expiresAt - FORCE_MS

export const rotateTimes = ({ expiresAt }: Life): readonly number[] =>
  expiresAt === undefined ? [] : [expiresAt - ROTATE_MS, expiresAt - FORCE_MS]

const canSave = ({ can }: LifePolicy): boolean => can.snapshot !== "none"

/**
 * A sandbox that is asked to sleep has prompts that its agent has not begun. It waits for them, like for a prompt that runs,
 * but not longer than the idle time: an agent that cannot start would keep it awake for ever.
 */
const hasPrompts = ({ wanted, waits, idleAt }: Life, at: number): boolean =>
  wanted === "asleep" && waits === true && idleAt !== undefined && at < idleAt

const isPrepared = ({ prepared, preparedAt }: Life, at: number): boolean =>
  prepared && preparedAt !== undefined && at < preparedAt + SNAPSHOT_BEGIN_MS

/** The runner sleeps for a snapshot, and there is work for it. Before a forced end it stays asleep: there is no time for work. */
const release = (life: Life, ref: string, { can }: LifePolicy): Call | undefined =>
  (life.prepared || life.preparedAt !== undefined) && life.linked && can.exec && !life.replace
    ? { do: "release", ref }
    : undefined

/** Ends or pauses the sandbox without losing work. Undefined: not possible now. */
const leave = (life: Life, ref: string, policy: LifePolicy, at: number): Call | undefined => {
  const { can } = policy
  const forced = mustSave(life, at) && !life.rescued
  if (life.busy && !forced) return release(life, ref, policy)
  if (hasPrompts(life, at) && !forced) return release(life, ref, policy)
  const pauses = can.supportsPause && (!life.replace || can.snapshot === "pause")
  if (!life.busy && pauses && !(life.deep && canSave(policy))) return { do: "pause", ref }
  if (!life.busy && (!life.touched || life.saved)) return { do: "terminate", ref }
  if (!canSave(policy)) return undefined
  // A snapshot that stops or pauses the sandbox would end a turn: the hook that ends turns properly has to run first.
  if (!isPrepared(life, at) && can.exec && life.linked) return { do: "prepare", ref }
  if (life.busy && can.snapshot !== "copy") return undefined
  const ends = life.wanted === "asleep" && life.deep && !life.busy
  return { do: "snapshot", ref, ...(ends && { ends }) }
}

/** The runner has not connected in time, and the provider says that the sandbox runs. */
const rescue = (life: Life, ref: string, policy: LifePolicy): Call | undefined => {
  if (!life.touched || life.saved) return { do: "terminate", ref }
  if (policy.can.exec && !life.restarted) return { do: "restart", ref }
  // A paused sandbox would be resumed: its files are kept, and its runner gets another try.
  const canLeave = policy.can.snapshot === "copy" || policy.can.snapshot === "stop"
  return canLeave ? { do: "snapshot", ref } : { do: "restart", ref }
}

const whenWantedRunning = (
  life: Life,
  ref: string,
  policy: LifePolicy,
  at: number,
): Call | undefined => {
  if (life.phase === "paused") return { do: "resume", ref }
  if (life.replace) {
    return life.phase === "booting" && !life.linked && !mustRotate(life, at)
      ? rescue(life, ref, policy)
      : leave(life, ref, policy, at)
  }
  return release(life, ref, policy) ?? (overdue(life, at) ? { do: "probe", ref } : undefined)
}

const overdue = ({ phase, bootBy, lookAt }: Life, at: number): boolean =>
  phase === "booting" && [bootBy, lookAt].some((time) => time !== undefined && at >= time)

export const nextCall = (life: Life, policy: LifePolicy, at: number): Call | undefined => {
  if (life.pending !== undefined) return undefined
  if (life.retryAt !== undefined && at < life.retryAt) return undefined
  const [doomed] = life.doomed
  if (doomed !== undefined) return { do: "terminate", ref: doomed }
  if (life.phase === "ended") return undefined
  if (life.doubt) return { do: "find", generation: life.generation }
  const { ref } = life
  if (life.wanted === "ended") return ref === undefined ? undefined : { do: "terminate", ref }
  // A sandbox that was never used does not stay when the attempts are given up.
  const unused = life.replace && !life.touched && !life.linked
  if (life.failed) return ref !== undefined && unused ? { do: "terminate", ref } : undefined
  if (ref === undefined)
    return life.wanted === "running"
      ? {
          do: "create",
          generation: life.generation + 1,
          ...(life.snapshot && { snapshot: life.snapshot.id }),
        }
      : undefined
  if (life.unsure) return { do: "probe", ref }
  if (life.wanted === "running") return whenWantedRunning(life, ref, policy, at)
  if (life.phase !== "paused")
    return leave(life, ref, policy, at) ?? (overdue(life, at) ? { do: "probe", ref } : undefined)
  if (!life.deep || !canSave(policy)) return undefined
  // A paused sandbox has to run for the hook before its snapshot.
  return life.saved ? { do: "terminate", ref } : { do: "resume", ref }
}
