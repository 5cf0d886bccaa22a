/** Keeps the outbox of the open session in the browser's database, so that a reload loses no prompt. */
import type { Pending } from "../../view/view.ts"
import { deletePending, readOutbox, writePending } from "./files.ts"

export interface KeptOutbox {
  /** Stores what is new or changed, and deletes what has left the outbox. */
  readonly keep: (outbox: readonly Pending[]) => void
}

/** Reads what an earlier page has stored, then follows the outbox. */
export const keepOutbox = (
  session: string,
  onRestored: (pending: readonly Pending[]) => void,
): KeptOutbox => {
  const stored = new Map<string, Pending>()
  const read = async () => {
    const found = await readOutbox(session)
    for (const pending of found) stored.set(pending.clientRequestId, pending)
    if (found.length > 0) onRestored(found)
  }
  void read()
  return {
    keep: (outbox) => {
      for (const pending of outbox) {
        const { clientRequestId, error } = pending
        const known = stored.get(clientRequestId)
        // The number of tries changes with every connection and is not worth a write.
        if (known !== undefined && known.error === error) continue
        stored.set(clientRequestId, pending)
        void writePending(session, pending)
      }
      const left = new Set(outbox.map(({ clientRequestId }) => clientRequestId))
      for (const id of stored.keys()) {
        if (left.has(id)) continue
        stored.delete(id)
        void deletePending(session, id)
      }
    },
  }
}
