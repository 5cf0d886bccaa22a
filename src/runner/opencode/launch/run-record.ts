/** Which OpenCode was left running, and how to get back in: what the next runner of this state directory reads. */
import { readFile, rm } from "node:fs/promises"
import { z } from "zod"
import { writeAtomically } from "../config/config-directories.ts"

/** Below the state directory. */
export const RUN_RECORD = "opencode-run.json"

const runRecord = z.object({
  pid: z.int().positive(),
  startTime: z.int().nonnegative(),
  url: z.string(),
  password: z.string(),
  version: z.string(),
  /** Of the configuration it runs with. */
  hash: z.string(),
  startHash: z.string(),
  /** Inherited by everything it starts; finds what outlived it. */
  mark: z.string(),
})

export type RunRecord = z.output<typeof runRecord>

export interface RunRecordFile {
  /** Nothing when there is none, and nothing when it makes no sense: then nobody can be found by it. */
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
