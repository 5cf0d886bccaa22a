/** How the fleet's phases are named outside: by the sandbox API and by the thread API. */
import { isGivenUp, isTouched, type Life } from "./life.ts"

export interface OutwardStatus {
  /** Of the sandbox API. */
  readonly status: "warm" | "running" | "paused" | "terminated"
  /** Of the thread API. */
  readonly threadStatus: "creating" | "resuming" | "active" | "paused" | "destroyed" | "error"
  readonly providerSandboxId: string | null
}

export const statusOf = (life: Life): OutwardStatus => {
  const providerSandboxId = life.ref ?? null
  if (life.phase === "ended")
    return { status: "terminated", threadStatus: "destroyed", providerSandboxId: null }
  if (isGivenUp(life)) return { status: "warm", threadStatus: "error", providerSandboxId: null }
  if (life.phase === "running")
    return { status: "running", threadStatus: "active", providerSandboxId }
  const asleep = life.wanted !== "running"
  if (life.phase === "paused")
    return asleep
      ? { status: "paused", threadStatus: "paused", providerSandboxId }
      : { status: "warm", threadStatus: "resuming", providerSandboxId }
  if (life.ref === undefined && asleep && life.snapshot)
    return { status: "paused", threadStatus: "paused", providerSandboxId: null }
  const restored = life.snapshot !== undefined || isTouched(life)
  return { status: "warm", threadStatus: restored ? "resuming" : "creating", providerSandboxId }
}

/**
 * Whether files of earlier sandboxes are missing in this one: the conversation is older than it, and neither a snapshot nor
 * the volume of the workspace brought them.
 */
export const isNewProvision = (life: Life, hasVolumes: boolean): boolean => {
  const isMade = life.ref !== undefined || life.pending?.call.do === "create"
  const generation = life.generation + (isMade ? 0 : 1)
  return generation > 1 && life.snapshot === undefined && !hasVolumes
}

/** What the sandbox serves to people: the tunnel `preview` of its gateway. */
export const previewUrl = (gateway: string): string => `${gateway.replace(/\/$/, "")}/t/preview/`
