/**
 * Follows the file that OpenCode writes its log to. It is a file and no pipe so that OpenCode outlives the runner;
 * it is cut when it grows, and however much is written at once only a little of it passes through memory.
 */
import { open, truncate } from "node:fs/promises"
import type { Clock } from "../../../lib/clock.ts"

export interface LogTailOptions {
  readonly file: string
  readonly clock: Clock
  readonly onLine: (line: string) => void
  readonly onSkipped: (bytes: number) => void
  readonly pollMs?: number
  readonly maxFileBytes?: number
}

export interface LogTail {
  /** Reads what is there now; the last words of a process are read before they are told. */
  readonly catchUp: () => Promise<void>
  readonly stop: () => void
}

const POLL_MS = 250
const MAX_FILE_BYTES = 16 * 1024 * 1024
/** Most that is read in one go; of a burst beyond it only the end is of use. */
const READ_BYTES = 256 * 1024

/** Starts at the end of what is there, or at its beginning when `fromStart`. */
export const followLog = (options: LogTailOptions, fromStart: boolean): LogTail => {
  const { file, clock, pollMs = POLL_MS, maxFileBytes = MAX_FILE_BYTES } = options
  let position = fromStart ? 0 : undefined
  let rest = ""
  let stopped = false
  let cancel = () => {}
  let reading: Promise<void> = Promise.resolve()

  const read = async (): Promise<void> => {
    const handle = await open(file, "r")
    try {
      const { size } = await handle.stat()
      if (position === undefined || position > size) position = position === undefined ? size : 0
      if (size - position > READ_BYTES) {
        options.onSkipped(size - READ_BYTES - position)
        position = size - READ_BYTES
        rest = ""
      }
      const buffer = Buffer.alloc(size - position)
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, position)
      position += bytesRead
      const lines = (rest + buffer.toString("utf8", 0, bytesRead)).split("\n")
      rest = (lines.pop() ?? "").slice(-READ_BYTES)
      for (const line of lines) if (line !== "") options.onLine(line)
    } finally {
      await handle.close()
    }
    // The writer appends, so it goes on at the new end; what is lost between the look and the cut is a log line.
    if (position > maxFileBytes) {
      await truncate(file, 0)
      position = 0
    }
  }

  const catchUp = (): Promise<void> => {
    reading = reading.then(read).catch(() => {})
    return reading
  }
  const poll = async () => {
    await catchUp()
    if (!stopped) cancel = clock.after(pollMs, () => void poll())
  }
  cancel = clock.after(pollMs, () => void poll())
  return {
    catchUp,
    stop: () => {
      stopped = true
      cancel()
    },
  }
}
