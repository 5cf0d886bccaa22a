/** Blobs of a Durable Object: bytes in rows, split into pieces below the size limit of a row. */
import { z } from "zod"
import type { Blobs } from "../../session/ports.ts"
import { hasTable } from "./sql.ts"
import type { DurableState } from "./runtime-types.ts"

export interface DurableBlobs extends Blobs {
  readonly find: (id: string) => { mime: string; body: Uint8Array<ArrayBuffer> } | undefined
}

const CHUNK = 1_000_000

const pieceRow = z.object({ mime: z.string(), bytes: z.instanceof(ArrayBuffer) })

export const durableBlobs = (state: DurableState): DurableBlobs => {
  const { sql } = state.storage
  const find: DurableBlobs["find"] = (id) => {
    if (!hasTable(state, "blobs")) return undefined
    const rows = sql
      .exec("SELECT mime, bytes FROM blobs WHERE id = ? ORDER BY place", id)
      .toArray()
      .map((row) => pieceRow.parse(row))
    const [first] = rows
    if (!first) return undefined
    const whole = new Uint8Array(rows.reduce((sum, { bytes }) => sum + bytes.byteLength, 0))
    let at = 0
    for (const { bytes } of rows) {
      whole.set(new Uint8Array(bytes), at)
      at += bytes.byteLength
    }
    return { mime: first.mime, body: whole }
  }
  return {
    find,
    get: (id) => {
      const found = find(id)
      return found && Buffer.from(found.body).toString("base64")
    },
    remove: (id) => {
      if (hasTable(state, "blobs")) sql.exec("DELETE FROM blobs WHERE id = ?", id)
    },
    ids: () =>
      hasTable(state, "blobs")
        ? sql
            .exec("SELECT DISTINCT id FROM blobs")
            .toArray()
            .map(({ id }) => String(id))
        : [],
    put: (id, mime, base64) => {
      const bytes = Uint8Array.from(Buffer.from(base64, "base64"))
      sql.exec(
        "CREATE TABLE IF NOT EXISTS blobs (id TEXT, place INTEGER, mime TEXT, bytes BLOB, PRIMARY KEY (id, place))",
      )
      for (let start = 0; start < bytes.length; start += CHUNK) {
        const chunk = bytes.slice(start, start + CHUNK)
        sql.exec("INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?)", id, start, mime, chunk.buffer)
      }
    },
  }
}
