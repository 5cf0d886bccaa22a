/** Child sessions whose runners are processes of this machine: their directories, and their rows for the next start of the hub. */
import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import type { Clock } from "../../../lib/clock.ts"
import type { LocalChildren } from "../../handlers/children-port.ts"
import type { Sql } from "../../session/ports.ts"
import { hasRow, readRows } from "../../session/rows.ts"
import { checkOut } from "./check-out-repository.ts"
import type { RunnerProcesses } from "./runner-processes.ts"

export interface LocalChildrenOptions {
  readonly sql: Sql
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly processes: RunnerProcesses
  readonly clock: Clock
}

export interface StartedChildren extends LocalChildren {
  /** The session has ended: its runner is not started again. */
  readonly ended: (session: string) => void
  /** Starts the runners again that ran before a restart of the hub. */
  readonly resume: () => Promise<void>
}

const childRow = z.object({ id: z.string(), parent: z.string(), model: z.string().nullable() })
type ChildRow = z.output<typeof childRow>

export const createLocalChildren = ({
  sql,
  environment,
  processes,
  clock,
}: LocalChildrenOptions): StartedChildren => {
  const workDirOf = (id: string) => join(processes.folderOf(id), "workspace")
  const isKnown = (id: string) => hasRow(sql, "SELECT 1 FROM sessions WHERE id = ?", id)
  const launch = ({ id, parent, model }: ChildRow) =>
    processes.start({ id, parent, model, workDir: workDirOf(id) })
  return {
    prepare: async (id, task) => {
      if (isKnown(id)) return
      // Left by an attempt that was interrupted.
      await rm(processes.folderOf(id), { recursive: true, force: true })
      await processes.makeFolders(id)
      await mkdir(workDirOf(id), { recursive: true })
      if (task.repoUrl !== undefined) await checkOut(workDirOf(id), task, environment)
    },
    start: async (child) => {
      if (isKnown(child.id)) return
      sql.run(
        "INSERT INTO sessions (id, parent, title, workspace, model, status, created_at) VALUES (?, ?, '', '', ?, 'running', ?)",
        child.id,
        child.parent,
        child.model,
        clock.now(),
      )
      await launch(child)
    },
    ended: (id) => sql.run("UPDATE sessions SET status = 'ended' WHERE id = ?", id),
    resume: async () => {
      const running =
        "SELECT id, parent, model FROM sessions WHERE parent IS NOT NULL AND status = 'running'"
      for (const row of readRows(sql, childRow, running)) await launch(row)
    },
  }
}
