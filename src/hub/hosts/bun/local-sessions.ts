/**
 * Sessions that a person starts beside the first one of `up`: in the same directory, or in a git worktree of their own. Each
 * has a runner of its own, which starts again with the hub.
 */
import { chown, mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import type { Clock } from "../../../lib/clock.ts"
import type { Log } from "../../../lib/log.ts"
import { LOCAL_OWNER } from "../../access/ownership.ts"
import { type LocalSessions, workspaces } from "../../local-sessions-port.ts"
import type { Sql } from "../../session/ports.ts"
import { readRow, readRows } from "../../session/rows.ts"
import type { Session } from "../../session/session.ts"
import type { Worktrees } from "./git-worktree.ts"
import type { RunnerProcesses } from "./runner-processes.ts"

export interface LocalSessionsOptions {
  readonly sql: Sql
  readonly workDir: string
  readonly processes: RunnerProcesses
  readonly worktrees: Worktrees
  readonly find: (session: string) => Session | undefined
  /** The session whose config a new one gets. */
  readonly firstSession: () => string
  /** The agent's user, which works in the worktree; undefined for the hub's own. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined
  readonly maxSessions: number
  readonly clock: Clock
  readonly log: Log
}

export interface StartedSessions extends LocalSessions {
  /** After the end of a session: removes its worktree if everything in it is committed. */
  readonly ended: (session: string) => Promise<void>
  /** Starts the runners again that ran before a restart of the hub. */
  readonly resume: () => Promise<void>
}

const startedRow = z.object({
  id: z.string(),
  workspace: z.enum(workspaces),
  model: z.string().nullable(),
})

const STARTED = `SELECT id, workspace, model FROM sessions
  WHERE parent IS NULL AND workspace IN ('same', 'worktree')`

export const createLocalSessions = (options: LocalSessionsOptions): StartedSessions => {
  const { sql, processes, worktrees, user } = options
  const worktreeOf = (id: string) => join(processes.folderOf(id), "workspace")
  const running = () => readRows(sql, startedRow, `${STARTED} AND status = 'running'`)

  const addWorktree = async (id: string): Promise<string | undefined> => {
    const folder = worktreeOf(id)
    await mkdir(folder)
    if (user) await chown(folder, user.uid, user.gid)
    return worktrees.add(folder, branchOf(id))
  }
  const start = async ({ id, workspace, model }: z.output<typeof startedRow>): Promise<void> => {
    const { workDir } = options
    const place = workspace === "same" ? workDir : await worktrees.workDirIn(worktreeOf(id))
    await processes.start({ id, workDir: place, model })
  }

  return {
    isFor: (owner) => owner === LOCAL_OWNER,
    prepare: async (id, { workspace, model = null }) => {
      if (running().length >= options.maxSessions)
        return {
          ok: false,
          status: 429,
          problem: `${options.maxSessions} sessions run on this machine already: end one first`,
        }
      const problem = workspace === "worktree" ? await worktrees.problem() : undefined
      if (problem !== undefined) return { ok: false, status: 409, problem }
      await processes.makeFolders(id)
      const removeFolders = () => rm(processes.folderOf(id), { recursive: true, force: true })
      const failed = workspace === "worktree" ? await addWorktree(id) : undefined
      if (failed !== undefined) {
        await removeFolders()
        return { ok: false, status: 409, problem: failed }
      }
      return {
        ok: true,
        undo: async () => {
          if (workspace === "worktree")
            await worktrees.remove(worktreeOf(id), { branch: branchOf(id) })
          await removeFolders()
        },
        start: async () => {
          const session = options.find(id)
          const common = options.find(options.firstSession())?.config() ?? {}
          session?.configure({ ...common, ...session.config() })
          sql.run(
            "INSERT INTO sessions (id, parent, title, workspace, model, status, created_at) VALUES (?, NULL, '', ?, ?, 'running', ?)",
            id,
            workspace,
            model,
            options.clock.now(),
          )
          await start({ id, workspace, model })
        },
      }
    },
    ended: async (id) => {
      const row = readRow(sql, startedRow, `${STARTED} AND id = ?`, id)
      if (row?.workspace !== "worktree") return
      const isRemoved = await worktrees.remove(worktreeOf(id))
      options.log.info("session.worktree", { session: id, isRemoved, directory: worktreeOf(id) })
    },
    resume: async () => {
      for (const row of running()) await start(row)
    },
  }
}

const branchOf = (id: string): string => `sandpiper/${id.slice(0, 8)}`
