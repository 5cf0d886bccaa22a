/**
 * Moves files that the agent has shown from the host's blobs to object storage, one at a time. A file is stored here first,
 * in the transaction of its frame; its blob is deleted after the storage has it. The key of the object is the id of the
 * artifact, so a repeated upload changes nothing.
 */
import { backoffMs } from "../../lib/backoff.ts"
import type { Deadlines } from "./deadlines.ts"
import type { Ports } from "./ports.ts"
import { hasRow, movableRow, readRow } from "./rows.ts"

export interface ArtifactMoves {
  /** A file was stored, or the time of a retry has come: the next `send` looks at the rows. */
  readonly wake: () => void
  /** After a commit and after a restart. */
  readonly send: (commit: Commit) => void
}

type Commit = (work: () => void) => void

const BACKOFF = { min: 1000, max: 300_000 }
/** A file that a chat service has not got yet stays here; it is looked at again after this time. */
const LOOK_AGAIN_MS = 60_000

export const createArtifactMoves = (ports: Ports, deadlines: Deadlines): ArtifactMoves => {
  const { sql, blobs, objects, now } = ports
  if (!objects) return { wake: () => {}, send: () => {} }
  /** True at first: the rows may be from before a restart. */
  let isAwake = true
  let isBusy = false
  let failures = 0

  const sleep = (ms: number) => {
    isAwake = false
    deadlines.set("artifact", "", now() + ms)
    deadlines.arm()
  }
  const rest = () => {
    isAwake = false
    if (hasRow(sql, "SELECT 1 FROM display_files WHERE moved = 0")) sleep(LOOK_AGAIN_MS)
  }

  const move = async (id: string, mime: string, commit: Commit): Promise<void> => {
    const base64 = blobs.get(id)
    try {
      await (base64 === undefined ? undefined : objects.put(id, mime, base64))
    } catch (error) {
      isBusy = false
      failures += 1
      ports.report("hub.artifact-not-moved", { failures, error: String(error) })
      return sleep(backoffMs(failures - 1, BACKOFF, ports.random()))
    }
    isBusy = false
    failures = 0
    // The commit also begins with the next file.
    commit(() => sql.run("UPDATE display_files SET moved = 1 WHERE id = ?", id))
    blobs.remove(id)
  }

  const send: ArtifactMoves["send"] = (commit) => {
    if (!isAwake || isBusy) return
    const next = readRow(
      sql,
      movableRow,
      `SELECT a.id AS id, a.mime AS mime FROM display_files d JOIN artifacts a ON a.id = d.id
       WHERE d.moved = 0 AND NOT EXISTS (SELECT 1 FROM sends WHERE sends.artifact = d.id) LIMIT 1`,
    )
    if (!next) return rest()
    isBusy = true
    // If the host is stopped meanwhile, its next start sends the file again.
    void move(next.id, next.mime, commit).catch((error: unknown) =>
      ports.report("hub.artifact-move-lost", { error: String(error) }),
    )
  }

  return {
    wake: () => {
      isAwake = true
    },
    send,
  }
}
