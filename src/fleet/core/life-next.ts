/** Decides the next call of a sandbox's life: one at a time, doubt and strays first. */
import { SNAPSHOT_BEGIN_MS } from "../../wire/snapshot-times.ts"
import { isGivenUp, isInDoubt, isLinked } from "./life.ts"
import type { Call, In, Life, LifePolicy, Made } from "./life.ts"
import type { Now } from "./life-phases.ts"

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

const isPrepared = ({ hook }: Made, at: number): boolean =>
  hook?.holds === true && at < hook.at + SNAPSHOT_BEGIN_MS

/** The runner sleeps for a snapshot, and there is work for it. Before a forced end it stays asleep: there is no time for work. */
const release = (life: Made, { can }: LifePolicy): Call | undefined =>
  life.hook && isLinked(life) && can.exec && !life.replace
    ? { do: "release", ref: life.ref }
    : undefined

/** Nothing in the sandbox would be lost with it. */
const isKept = ({ work }: Made): boolean => work === "none" || work === "saved"

/** Ends or pauses the sandbox without losing work. Undefined: not possible now. */
const leave = (life: In<"booting" | "running">, now: Now): Call | undefined => {
  const { can, at } = now
  const { ref } = life
  const isBusy = life.runner === "busy"
  const forced = mustSave(life, at) && life.work !== "rescued"
  if ((isBusy || hasPrompts(life, at)) && !forced) return release(life, now)
  const pauses = can.supportsPause && (!life.replace || can.snapshot === "pause")
  if (!isBusy && pauses && !(life.deep && canSave(now))) return { do: "pause", ref }
  if (!isBusy && isKept(life)) return { do: "terminate", ref }
  if (!canSave(now)) return undefined
  // A snapshot that stops or pauses the sandbox would end a turn: the hook that ends turns properly has to run first.
  if (!isPrepared(life, at) && can.exec && isLinked(life)) return { do: "prepare", ref }
  if (isBusy && can.snapshot !== "copy") return undefined
  return { do: "snapshot", ref, ...(life.deep && !isBusy && { ends: true }) }
}

/** The runner has not connected in time, and the provider says that the sandbox runs. */
const rescue = (life: In<"booting">, { can }: LifePolicy): Call => {
  const { ref } = life
  if (isKept(life)) return { do: "terminate", ref }
  if (can.exec && !life.restarted) return { do: "restart", ref }
  // A paused sandbox would be resumed: its files are kept, and its runner gets another try.
  return { do: can.snapshot === "copy" || can.snapshot === "stop" ? "snapshot" : "restart", ref }
}

const whenAbsent = ({ generation, snapshot, ...life }: In<"absent">): Call | undefined =>
  life.wanted === "running"
    ? { do: "create", generation: generation + 1, ...(snapshot && { snapshot: snapshot.id }) }
    : undefined

const whenBooting = (life: In<"booting">, now: Now): Call | undefined => {
  if (life.wanted === "running" && life.replace)
    return mustRotate(life, now.at) ? leave(life, now) : rescue(life, now)
  const left = life.wanted === "asleep" ? leave(life, now) : undefined
  const isDue = [life.bootBy, life.lookAt].some((time) => time !== undefined && now.at >= time)
  return left ?? (isDue ? { do: "probe", ref: life.ref } : undefined)
}

const whenRunning = (life: In<"running">, now: Now): Call | undefined =>
  life.wanted === "running" && !life.replace ? release(life, now) : leave(life, now)

const whenPaused = (life: In<"paused">, now: Now): Call | undefined => {
  const { ref } = life
  if (life.wanted === "running") return { do: "resume", ref }
  if (!life.deep || !canSave(now)) return undefined
  // A paused sandbox has to run for the hook before its snapshot.
  return { do: life.work === "saved" ? "terminate" : "resume", ref }
}

export const nextCall = (life: Life, now: Now): Call | undefined => {
  if (life.pending || (life.retryAt !== undefined && now.at < life.retryAt)) return undefined
  const [doomed] = life.doomed
  if (doomed !== undefined) return { do: "terminate", ref: doomed }
  if (isInDoubt(life)) return { do: "find", generation: life.generation }
  const { ref } = life
  if (life.wanted === "ended" && ref !== undefined) return { do: "terminate", ref }
  // A sandbox that was never used does not stay when the attempts are given up.
  const isUnused = life.replace === true && life.work === "none" && !isLinked(life)
  if (isGivenUp(life)) return isUnused ? { do: "terminate", ref: life.ref } : undefined
  if (life.unsure) return { do: "probe", ref: life.ref }
  if (life.phase === "absent") return whenAbsent(life)
  if (life.phase === "booting") return whenBooting(life, now)
  if (life.phase === "running") return whenRunning(life, now)
  return life.phase === "paused" ? whenPaused(life, now) : undefined
}
