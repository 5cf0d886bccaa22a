/**
 * Child sessions: each has a runner of its own, connected to this hub. The fleet starts it in a sandbox, or this process
 * starts it with a workspace of its own.
 */
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import type { Clock } from "../../../lib/clock.ts"
import { channelAddress, MAIN_CHANNEL } from "../../../wire/channel.ts"
import type { Sql } from "../../session/ports.ts"
import { readRow, readRows } from "../../session/rows.ts"
import type { Session } from "../../session/session.ts"
import { checkOut } from "./check-out-repository.ts"
import {
  childConfigOf,
  type Children,
  type Task,
  taskTextOf,
  wishOf,
  workspaceOf,
} from "../../handlers/children-port.ts"
import { type ChildLimits, problemOfNewChild } from "../../handlers/child-limits.ts"
import { checkSource } from "../../handlers/repository-source.ts"
import { nameOfRequest, Refusal } from "../../handlers/handler-table.ts"
import type { RunnerProcesses } from "./runner-processes.ts"

export interface ChildrenOptions extends ChildLimits {
  readonly sql: Sql
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly processes: RunnerProcesses
  readonly find: (session: string) => Session | undefined
  /** A new session with the owner of its parent. Throws a Refusal at the owner's limit of sessions. */
  readonly createChild: (session: string, parent: string) => Promise<Session>
  /** Why a session may not start child sessions. */
  readonly refusalOf?: (parent: string) => string | undefined
  readonly clock: Clock
  /** A fleet gives every session with work a sandbox: no process is started here. */
  readonly hasFleet?: boolean | undefined
}

const childRow = z.object({
  id: z.string(),
  parent: z.string(),
  title: z.string(),
  workspace: z.string(),
  model: z.string().nullable(),
  status: z.enum(["running", "ended"]),
  created_at: z.number(),
})
type ChildRow = z.output<typeof childRow>

const RUNNING = "SELECT * FROM sessions WHERE parent IS NOT NULL AND status = 'running'"

export const createChildren = (options: ChildrenOptions): Children => {
  const { sql, processes } = options
  const workspaceFolder = (id: string) => join(processes.folderOf(id), "workspace")
  const findChild = (id: string) =>
    readRow(sql, childRow, "SELECT * FROM sessions WHERE id = ? AND parent IS NOT NULL", id)
  const childrenOf = (parent: string) =>
    readRows(sql, childRow, "SELECT * FROM sessions WHERE parent = ? ORDER BY created_at", parent)
  const running = () => readRows(sql, childRow, RUNNING)

  const launch = async ({ id, parent, model }: ChildRow) => {
    // With a fleet its queued task is what starts the sandbox.
    if (options.hasFleet !== true)
      await processes.start({ id, parent, model, workDir: workspaceFolder(id) })
  }

  const terminate: Children["terminate"] = async (id, why, how) => {
    // Descendants first: a parent that has ended cannot end them any more.
    await endChildrenOf(id)
    options.find(id)?.terminate(why, how)
    sql.run("UPDATE sessions SET status = 'ended' WHERE id = ?", id)
    await processes.stop(id)
  }

  const endChildrenOf = async (id: string): Promise<void> => {
    for (const child of childrenOf(id)) {
      if (child.status === "running") await terminate(child.id, `ended with ${id}`, { quiet: true })
    }
  }

  const depthOf = (id: string): number => {
    const parent = findChild(id)?.parent
    return parent === undefined ? 0 : depthOf(parent) + 1
  }

  const checkLimits = (parent: string): void => {
    const children = options.find(parent)?.children() ?? []
    const problem =
      options.refusalOf?.(parent) ?? problemOfNewChild(children, depthOf(parent), options)
    if (problem !== undefined) throw new Refusal(problem)
  }

  const makeFolders = async (id: string, task: Task) => {
    const workspace = workspaceFolder(id)
    await processes.makeFolders(id)
    await mkdir(workspace, { recursive: true })
    if (task.repoUrl !== undefined) await checkOut(workspace, task, options.environment)
  }

  return {
    terminate,
    spawn: async (parent, requestId, task) => {
      // The runner chooses the request's id: without the parent, another owner's child could be named.
      const name = nameOfRequest(parent, requestId)
      const id = `child-${name}`
      if (findChild(id)) return id
      checkLimits(parent)
      if (options.hasFleet === true) checkSource(task)
      else await makeFolders(id, task)
      const row: ChildRow = {
        id,
        parent,
        title: task.title ?? task.workspace,
        workspace: task.workspace,
        model: task.model ?? null,
        status: "running",
        created_at: options.clock.now(),
      }
      const session = await options.createChild(id, parent)
      const given = session.configure(
        childConfigOf(options.find(parent)?.config() ?? {}, task.persona),
      )
      if (!given.ok) throw new Refusal(given.error.message)
      if (task.title === undefined) session.setTitle(row.title)
      else session.rename(task.title)
      session.setParent(parent)
      session.setWish(wishOf(task))
      // Without a task it waits for a workflow order.
      if (task.task !== "")
        session.prompt(
          {
            type: "prompt",
            messageId: `task-${name}`,
            content: taskTextOf(task),
            ...(task.model !== undefined && { model: task.model }),
            ...channelAddress(MAIN_CHANNEL),
          },
          MAIN_CHANNEL,
          { fromSession: parent },
        )
      sql.run(
        "INSERT INTO sessions (id, parent, title, workspace, model, status, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        row.id,
        row.parent,
        row.title,
        row.workspace,
        row.model,
        row.status,
        row.created_at,
      )
      options.find(parent)?.childStarted(id, row.title)
      await launch(row)
      return id
    },
    executionEnded: async (executionId, status) => {
      const made = running().find(({ workspace }) => workspace === workspaceOf(executionId))
      if (made) await terminate(made.id, `The workflow run ${executionId} has ended: ${status}.`)
    },
    of: (parent) =>
      childrenOf(parent).map(({ id, title, workspace, status, created_at }) => ({
        ...options.find(id)?.status(),
        id,
        title,
        workspace,
        status,
        createdAt: created_at,
      })),
    mustOwn: (parent, child) => {
      if (findChild(child)?.parent !== parent)
        throw new Refusal(`${child} is not a child of this session`)
    },
    ended: async (id) => {
      await endChildrenOf(id)
      // A session that has completed itself has no runner to stop here.
      sql.run("UPDATE sessions SET status = 'ended' WHERE id = ?", id)
    },
    resume: async () => {
      for (const row of running()) await launch(row)
    },
    stop: processes.stopAll,
  }
}
