/**
 * Follows OpenCode's log file. It is a file instead of a pipe so that OpenCode can outlive the runner. The file is
 * truncated when it grows too large, and of a large burst only the end is read into memory.
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
  /** Reads to the end of the file now, for an error message that quotes the last lines. */
  readonly catchUp: () => Promise<void>
  readonly stop: () => void
}

const POLL_MS = 250
const MAX_FILE_BYTES = 16 * 1024 * 1024
/** Of a burst larger than this only the end is read. */
const MAX_READ_BYTES = 256 * 1024

export const followLog = (options: LogTailOptions): LogTail => {
  const { file, clock, pollMs = POLL_MS, maxFileBytes = MAX_FILE_BYTES } = options
  let position = 0
  let partialLine = ""
  let stopped = false
  let cancel = () => {}
  let reading: Promise<void> = Promise.resolve()

  const read = async (): Promise<void> => {
    const handle = await open(file, "r")
    try {
      const { size } = await handle.stat()
      if (position > size) position = 0
      if (size - position > MAX_READ_BYTES) {
        options.onSkipped(size - MAX_READ_BYTES - position)
        position = size - MAX_READ_BYTES
        partialLine = ""
      }
      const buffer = Buffer.alloc(size - position)
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, position)
      position += bytesRead
      const lines = (partialLine + buffer.toString("utf8", 0, bytesRead)).split("\n")
      partialLine = (lines.pop() ?? "").slice(-MAX_READ_BYTES)
      for (const line of lines) if (line !== "") options.onLine(line)
    } finally {
      await handle.close()
    }
    // OpenCode opened the file for appending, so it continues at the new end. Lines written since the read are lost.
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
