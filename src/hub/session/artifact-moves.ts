/**
 * Moves files that the agent has shown from the host's blobs to object storage, one at a time. A file is stored here first, in the
 * transaction of its frame; its blob is deleted after the storage has it. The key of the object is the id of the artifact, so a
 * repeated upload changes nothing.
 */
import { z } from "zod"
import type { DeliveryKind } from "./deliveries.ts"
import type { DeliveryRows } from "./delivery-rows.ts"
import type { SessionDeliveries } from "./delivery-kinds.ts"
import type { Ports } from "./ports.ts"
import { movableRow, readRow, readRows } from "./rows.ts"

const artifactMove = movableRow
export type ArtifactMove = z.output<typeof artifactMove>

export interface ArtifactMoves {
  /** A shown file that nothing here needs as a blob any more. Inside a transaction. */
  readonly add: (artifact: string) => void
  /** Files from before this host had object storage. Inside a transaction; `needed` are still needed as blobs. */
  readonly addStored: (needed: ReadonlySet<string>) => void
  /** Undefined without object storage. */
  readonly kind: DeliveryKind<ArtifactMove> | undefined
}

const NOT_MOVED =
  "SELECT a.id AS id, a.mime AS mime FROM display_files d JOIN artifacts a ON a.id = d.id WHERE d.moved = 0"

export const createArtifactMoves = (
  { sql, blobs, objects }: Ports,
  deliveries: DeliveryRows<SessionDeliveries>,
): ArtifactMoves => {
  if (!objects) return { add: () => {}, addStored: () => {}, kind: undefined }
  const addRow = (payload: ArtifactMove) =>
    deliveries.add("artifact-move", { id: `move-${payload.id}`, lane: "artifact", payload })
  return {
    add: (artifact) => {
      const found = readRow(sql, movableRow, `${NOT_MOVED} AND a.id = ?`, artifact)
      if (found) addRow(found)
    },
    addStored: (needed) => {
      for (const row of readRows(sql, movableRow, NOT_MOVED)) if (!needed.has(row.id)) addRow(row)
    },
    kind: {
      payload: artifactMove,
      backoff: { min: 1000, max: 300_000 },
      // The blob is complete; it only takes space here.
      maxAttempts: Infinity,
      send: async ({ payload: { id, mime } }) => {
        const base64 = blobs.get(id)
        if (base64 !== undefined) await objects.put(id, mime, base64)
      },
      delivered: ({ payload }) =>
        sql.run("UPDATE display_files SET moved = 1 WHERE id = ?", payload.id),
      cleanUp: ({ payload }) => blobs.remove(payload.id),
    },
  }
}
