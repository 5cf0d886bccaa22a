/** Images of the conversation: the bytes go to the host's blobs, the row describes them. */
import type { SessionContext } from "./session-context.ts"

const BASE64_PER_BYTE = 4 / 3

/** Idempotent: the same id is the same artifact. */
export const storeArtifact = (
  { ports, changes }: SessionContext,
  mime: string,
  base64: string,
  description: string,
  id: string,
): string => {
  ports.blobs.put(id, mime, base64)
  const bytes = Math.floor(base64.replace(/=+$/, "").length / BASE64_PER_BYTE)
  ports.sql.run(
    "INSERT OR IGNORE INTO artifacts (id, mime, bytes, description, at) VALUES (?, ?, ?, ?, ?)",
    id,
    mime,
    bytes,
    description,
    ports.now(),
  )
  changes.record("artifact", id)
  return id
}
