/** The output of a background process: numbered entries, of which the newest are kept up to a number of bytes. Pure. */

export type LogStream = "stdout" | "stderr" | "pty"

export interface LogEntry {
  readonly sequence: number
  readonly stream: LogStream
  readonly timestampMs: number
  readonly data: Uint8Array
}

export interface LogRing {
  readonly entries: readonly LogEntry[]
  readonly bytes: number
  readonly lastSequence: number
}

export const EMPTY_RING: LogRing = { entries: [], bytes: 0, lastSequence: 0 }

/** A program that writes single bytes must not cost much more memory than its output. */
const MOST_ENTRIES = 2048

/** The newest entry is always kept, even if it alone is larger than `maxBytes`. */
export const addEntry = (
  ring: LogRing,
  entry: Omit<LogEntry, "sequence">,
  maxBytes: number,
): LogRing => {
  const sequence = ring.lastSequence + 1
  const entries = [...ring.entries, { ...entry, sequence }]
  let bytes = ring.bytes + entry.data.length
  let dropped = 0
  while (
    (bytes > maxBytes || entries.length - dropped > MOST_ENTRIES) &&
    dropped < entries.length - 1
  ) {
    bytes -= entries[dropped]?.data.length ?? 0
    dropped += 1
  }
  return {
    entries: dropped === 0 ? entries : entries.slice(dropped),
    bytes,
    lastSequence: sequence,
  }
}

export interface LogQuery {
  /** Only entries after this sequence. */
  readonly since?: number | undefined
  readonly stream?: LogStream | "combined" | undefined
  /** Only the last entries, this many. */
  readonly tail?: number | undefined
}

export const selectEntries = (
  { entries }: LogRing,
  { since = 0, stream = "combined", tail }: LogQuery,
): readonly LogEntry[] => {
  const found = entries.filter(
    (entry) => entry.sequence > since && (stream === "combined" || entry.stream === stream),
  )
  return tail === undefined ? found : found.slice(Math.max(0, found.length - tail))
}
