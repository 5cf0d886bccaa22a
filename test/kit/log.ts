/** Logs for code under test: one that records its lines, one that discards them. */
import { createLog, type Log } from "../../src/lib/log.ts"

export const recordingLog = (lines: string[], secrets: readonly string[] = []): Log =>
  createLog({
    level: "debug",
    format: "json",
    secrets,
    write: (line) => void lines.push(line),
    now: Date.now,
  })

export const silentLog: Log = createLog({
  level: "error",
  format: "json",
  secrets: [],
  write: () => {},
  now: Date.now,
})
