/** The record of the running OpenCode on disk, from which the next runner of this state directory adopts or ends it. */
import { readFile, rm } from "node:fs/promises"
import { z } from "zod"
import { writeAtomically } from "../config/config-directories.ts"

/** In the session part of the state directory. */
export const RUN_RECORD = "opencode-run.json"

const runRecord = z.object({
  pid: z.int().positive(),
  startTime: z.int().nonnegative(),
  url: z.string(),
  password: z.string(),
  version: z.string(),
  /** Of the configuration that the process runs with; empty until it has read one. */
  hash: z.string(),
  startHash: z.string(),
  /** An environment variable's value that every descendant inherits: finds those that outlive the process. */
  mark: z.string(),
})

export type RunRecord = z.output<typeof runRecord>

export interface RunRecordFile {
  /** Undefined when the file is missing or malformed. */
  readonly read: () => Promise<RunRecord | undefined>
  readonly write: (record: RunRecord) => Promise<void>
  readonly clear: () => Promise<void>
}

export const openRunRecord = (path: string): RunRecordFile => ({
  read: async () => {
    try {
      return runRecord.safeParse(JSON.parse(await readFile(path, "utf8"))).data
    } catch {
      return undefined
    }
  },
  write: (record) => writeAtomically(path, `${JSON.stringify(record)}\n`),
  clear: () => rm(path, { force: true }),
})
