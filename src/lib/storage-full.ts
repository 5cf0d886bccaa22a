/** A full disk: how its errors are recognized, and the one sentence that people read. Pure. */

export const STORAGE_FULL =
  "the disk is full, so nothing can be stored: free some space on the disk of the state directory, then send it again"

const CODES = new Set(["SQLITE_FULL", "ENOSPC", "EDQUOT"])

/** SQLite reports a full disk by its own code, or as a failed write while it grows its shared memory. */
export const isStorageFull = (error: unknown): boolean => {
  if (typeof error !== "object" || error === null) return false
  const { code, cause, message } = error as { code?: unknown; cause?: unknown; message?: unknown }
  if (typeof code === "string" && (CODES.has(code) || code.startsWith("SQLITE_IOERR_SHM")))
    return true
  // Errors of a Durable Object have no code.
  if (typeof message === "string" && message.endsWith(": SQLITE_FULL")) return true
  return cause !== undefined && isStorageFull(cause)
}
