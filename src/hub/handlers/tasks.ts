/** The task board that all sessions share. */
import type { Sql } from "../session/ports.ts"
import { selectAll, selectOne, type TaskRow, taskRow } from "../shared-store/rows.ts"
import { Refusal, type StoreHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"

const STATUSES = ["pending", "in_progress", "blocked", "completed", "failed", "cancelled"]

export const taskHandlers = (
  sql: Sql,
  { now, newId }: HandlerContext,
): Pick<StoreHandlers, "task-create" | "task-list" | "task-update" | "task-my"> => {
  const find = (id: string) => selectOne(sql, taskRow, "SELECT * FROM tasks WHERE id = ?", id)
  const mustExist = (id: string) => {
    const row = find(id)
    if (!row) throw new Refusal(`there is no task ${id}`)
    return row
  }
  /** A pending task is shown as blocked until all tasks in `blockedBy` are completed. */
  const showTask = (row: TaskRow) => {
    const isBlocked = row.blocked_by.some((id) => find(id)?.status !== "completed")
    return {
      id: row.id,
      title: row.title,
      status: row.status === "pending" && isBlocked ? "blocked" : row.status,
      createdBySessionId: row.created_by,
      blockedBy: row.blocked_by,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
      ...(row.description !== null && { description: row.description }),
      ...(row.session !== null && { sessionId: row.session }),
      ...(row.parent !== null && { parentTaskId: row.parent }),
      ...(row.result !== null && { result: row.result }),
    }
  }
  const list = (status: string | undefined, session?: string) =>
    selectAll(sql, taskRow, "SELECT * FROM tasks ORDER BY place")
      .filter((row) => session === undefined || row.session === session)
      .map(showTask)
      .filter((task) => status === undefined || task.status === status)
  const checkStatus = (status: string | undefined) => {
    if (status !== undefined && !STATUSES.includes(status)) {
      throw new Refusal(`status: must be one of ${STATUSES.join(", ")}`)
    }
  }
  return {
    "task-create": (
      { title, description, sessionId, parentTaskId, blockedBy = [] },
      { session },
    ) => {
      for (const id of [...blockedBy, ...(parentTaskId === undefined ? [] : [parentTaskId])])
        mustExist(id)
      const id = newId()
      sql.run(
        `INSERT INTO tasks (id, title, description, status, session, created_by, parent, blocked_by, created_at, updated_at)
         VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?)`,
        id,
        title,
        description ?? null,
        sessionId ?? null,
        session,
        parentTaskId ?? null,
        JSON.stringify(blockedBy),
        now(),
        now(),
      )
      return { task: showTask(mustExist(id)) }
    },
    "task-list": ({ status, limit = 100 }) => {
      checkStatus(status)
      return { tasks: list(status).slice(0, limit) }
    },
    "task-my": ({ status }, { session }) => {
      checkStatus(status)
      return { tasks: list(status, session) }
    },
    "task-update": ({ taskId, status, result, description, sessionId, title }) => {
      mustExist(taskId)
      checkStatus(status)
      sql.run(
        `UPDATE tasks SET status = coalesce(?, status), result = coalesce(?, result),
           description = coalesce(?, description), session = coalesce(?, session), title = coalesce(?, title),
           updated_at = ? WHERE id = ?`,
        status ?? null,
        result ?? null,
        description ?? null,
        sessionId ?? null,
        title ?? null,
        now(),
        taskId,
      )
      return { task: showTask(mustExist(taskId)) }
    },
  }
}
