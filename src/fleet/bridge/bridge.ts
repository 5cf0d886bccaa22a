/** Publishes the sandboxes of sessions for other programs. */
import type { StoredSession } from "../store/ports.ts"

export interface Bridge {
  /** After every stored change. Returns at once: the bridge never delays a sandbox and never fails a call. */
  readonly changed: (session: Pick<StoredSession, "id" | "life">) => void
  /** The record was deleted. */
  readonly forgotten: (session: string) => void
  readonly start: () => void
  readonly stop: () => Promise<void>
}
