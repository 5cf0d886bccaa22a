/** Whether prompts can run, and if not, which part is in the way. */

export interface Component {
  readonly state: "starting" | "ready" | "degraded" | "failed" | "off"
  /** When it came into this state, in milliseconds since the epoch. */
  readonly since: number
  readonly why?: string
  readonly restarts?: number
  /** Prompts cannot run without it. */
  readonly essential: boolean
}

export type Components = Readonly<Record<string, Component>>

export const isReady = (parts: Components): boolean =>
  Object.values(parts).every(({ essential, state }) => !essential || state === "ready")

export const readyReport = (parts: Components, now: number): Readonly<Record<string, unknown>> => ({
  ready: isReady(parts),
  parts: Object.fromEntries(
    Object.entries(parts).map(([name, { since, ...part }]) => [
      name,
      { ...part, since: new Date(since).toISOString(), forMs: Math.max(0, now - since) },
    ]),
  ),
})

export interface ComponentStates {
  /** Notes what a part is like now; a part that is what it was keeps its `since`. */
  readonly set: (name: string, state: Component["state"], why?: string) => void
  readonly read: () => Components
}

/** `essential` names the parts that prompts need, all of which are starting. */
export const createComponentStates = (
  essential: readonly string[],
  now: () => number,
): ComponentStates => {
  const parts = new Map<string, Component>(
    essential.map((name) => [name, { state: "starting", since: now(), essential: true }]),
  )
  return {
    set: (name, state, why) => {
      const known = parts.get(name)
      if (known?.state === state && known.why === why) return
      const isRestart = known !== undefined && state === "starting" && known.state !== "starting"
      parts.set(name, {
        state,
        since: known?.state === state ? known.since : now(),
        ...(why !== undefined && { why }),
        restarts: (known?.restarts ?? 0) + (isRestart ? 1 : 0),
        essential: known?.essential ?? false,
      })
    },
    read: () => Object.fromEntries(parts),
  }
}
