/** The states of the runner's components, from which /ready tells whether prompts can run. */

export interface Component {
  readonly state: "starting" | "ready" | "degraded" | "failed" | "off"
  /** When it entered this state, in milliseconds since the epoch. */
  readonly since: number
  readonly why?: string
  readonly restarts?: number
  /** Prompts cannot run without it. */
  readonly essential: boolean
}

export type Components = Readonly<Record<string, Component>>

export const isReady = (components: Components): boolean =>
  Object.values(components).every(({ essential, state }) => !essential || state === "ready")

export const readyReport = (
  components: Components,
  now: number,
): Readonly<Record<string, unknown>> => ({
  ready: isReady(components),
  parts: Object.fromEntries(
    Object.entries(components).map(([name, { since, ...component }]) => [
      name,
      { ...component, since: new Date(since).toISOString(), forMs: Math.max(0, now - since) },
    ]),
  ),
})

export interface ComponentStates {
  /** Sets a component's state; `since` changes only if the state differs from the last one. */
  readonly set: (name: string, state: Component["state"], why?: string) => void
  readonly read: () => Components
}

/** `essential` names the components that prompts need; they begin as `starting`. */
export const createComponentStates = (
  essential: readonly string[],
  now: () => number,
): ComponentStates => {
  const components = new Map<string, Component>(
    essential.map((name) => [name, { state: "starting", since: now(), essential: true }]),
  )
  return {
    set: (name, state, why) => {
      const known = components.get(name)
      if (known?.state === state && known.why === why) return
      const isRestart = known !== undefined && state === "starting" && known.state !== "starting"
      components.set(name, {
        state,
        since: known?.state === state ? known.since : now(),
        ...(why !== undefined && { why }),
        restarts: (known?.restarts ?? 0) + (isRestart ? 1 : 0),
        essential: known?.essential ?? false,
      })
    },
    read: () => Object.fromEntries(components),
  }
}
