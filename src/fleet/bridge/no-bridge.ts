/** What tells other programs about sandboxes, and the one that tells nothing. */
import type { StoredSession } from "../store/ports.ts"

export interface Bridge {
  /** After every stored change. Returns at once: the bridge never delays a sandbox and never fails a call. */
  readonly changed: (session: StoredSession) => void
  readonly start: () => void
  readonly stop: () => Promise<void>
}

export const noBridge: Bridge = {
  changed: () => {},
  start: () => {},
  stop: async () => {},
}
