/** Things too big for a row: the bytes go to the host's blobs, the row says what and where. */
import type { SessionContext } from "./session-context.ts"

const BASE64_PER_BYTE = 4 / 3

/** The same id again is the same artifact. */
export const keepArtifact = (
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
  changes.note("artifact", id)
  return id
}
