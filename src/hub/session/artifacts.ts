/** Images and files of the conversation: the bytes go to the host's blobs, the row describes them. */
import type { SessionContext } from "./session-context.ts"

const BASE64_PER_BYTE = 4 / 3

export interface NewArtifact {
  readonly id: string
  readonly mime: string
  readonly base64: string
  readonly description: string
  /** The message that it belongs to. */
  readonly messageId?: string | undefined
}

/** Idempotent: the same id is the same artifact. */
export const storeArtifact = (
  { ports, changes }: SessionContext,
  { id, mime, base64, description, messageId }: NewArtifact,
): string => {
  ports.blobs.put(id, mime, base64)
  const bytes = Math.floor(base64.replace(/=+$/, "").length / BASE64_PER_BYTE)
  ports.sql.run(
    "INSERT OR IGNORE INTO artifacts (id, mime, bytes, description, at, message_id) VALUES (?, ?, ?, ?, ?, ?)",
    id,
    mime,
    bytes,
    description,
    ports.now(),
    messageId ?? null,
  )
  changes.record("artifact", id)
  return id
}
