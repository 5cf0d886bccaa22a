/** Decides which requests of a double fail, as the contract suite's faults ask for it. */
import type { FaultKind, FaultSwitch } from "../provider-faults.ts"
import type { FaultClock } from "./fault-clock.ts"

export interface Faults extends FaultSwitch {
  /** Counts a request and says how it fails. Undefined: it does not. */
  readonly take: () => FaultKind | undefined
  /** The fault has happened to a request. */
  readonly hit: () => void
  /** Called by `clear`: ends the request that hangs. */
  readonly onClear: (end: () => void) => void
}

export const RETRY_AFTER_SECONDS = 7

export const createFaults = (options: {
  readonly clock: FaultClock
  readonly secrets: readonly string[]
  readonly hasRetryAfter: boolean
}): Faults => {
  const state = {
    requests: 0,
    fault: undefined as { readonly kind: FaultKind; readonly from: number } | undefined,
    reached: Promise.withResolvers<void>(),
  }
  const hanging = new Set<() => void>()
  return {
    secrets: options.secrets,
    hasRetryAfter: options.hasRetryAfter,
    set: (kind, skip) => {
      state.fault = { kind, from: state.requests + skip }
      state.reached = Promise.withResolvers<void>()
    },
    clear: () => {
      state.fault = undefined
      options.clock.reset()
      for (const end of hanging) end()
      hanging.clear()
    },
    reached: () => state.reached.promise,
    expire: options.clock.expire,
    requests: () => state.requests,
    take: () => {
      const number = state.requests
      state.requests += 1
      if (!state.fault || number < state.fault.from) return undefined
      const { kind, from } = state.fault
      return kind !== "not-found" || number === from ? kind : undefined
    },
    hit: () => state.reached.resolve(),
    onClear: (end) => void hanging.add(end),
  }
}
