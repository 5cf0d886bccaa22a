/** The actions of `workflow-api` on a workflow itself: get, update, delete, history, rollback. */
import { z } from "zod"
import type { Sql } from "../session/ports.ts"
import { selectAll, selectOne, workflowDataRow, workflowVersionRow } from "../shared-store/rows.ts"
import { readPayload } from "./read-payload.ts"
import { Refusal } from "./handler-table.ts"
import type { Workflows } from "./workflows.ts"

const text = z.string().min(1)
const targetPayload = z.object({ workflowId: text })

const updatePayload = targetPayload.extend({
  name: text.optional(),
  description: z.string().optional(),
  slug: text.optional(),
  version: text.optional(),
  enabled: z.boolean().optional(),
  tags: z.array(text).optional(),
  data: z.record(z.string(), z.unknown()).optional(),
})

const historyPayload = targetPayload.extend({
  limit: z.int().min(1).max(200).default(50),
  offset: z.int().min(0).default(0),
})

const rollbackPayload = targetPayload.extend({
  targetWorkflowHash: text,
  version: text.optional(),
  notes: z.string().optional(),
})

export const workflowActions = (sql: Sql, workflows: Workflows) => ({
  get: (payload: unknown) => {
    const { workflowId } = readPayload(targetPayload, payload)
    return { workflow: workflows.show(workflows.find(workflowId)) }
  },
  update: (payload: unknown, session: string) => {
    const change = readPayload(updatePayload, payload)
    const row = workflows.find(change.workflowId)
    if (change.slug !== undefined && change.slug !== row.slug && slugIsTaken(sql, change.slug)) {
      throw new Refusal(`slug: ${change.slug} is taken`)
    }
    sql.run(
      `UPDATE workflows SET name = coalesce(?, name), description = coalesce(?, description), slug = coalesce(?, slug),
         enabled = coalesce(?, enabled), tags = coalesce(?, tags), version = coalesce(?, version) WHERE id = ?`,
      change.name ?? null,
      change.description ?? null,
      change.slug ?? null,
      change.enabled === undefined ? null : Number(change.enabled),
      change.tags === undefined ? null : JSON.stringify(change.tags),
      change.version ?? null,
      row.id,
    )
    if (change.data !== undefined) {
      workflows.setData(
        row,
        { data: change.data, version: change.version, source: "update" },
        session,
      )
    }
    return { workflow: workflows.show(workflows.find(row.id)) }
  },
  delete: (payload: unknown) => {
    const { id } = workflows.find(readPayload(targetPayload, payload).workflowId)
    sql.run("DELETE FROM workflows WHERE id = ?", id)
    sql.run("UPDATE triggers SET enabled = 0, next_at = NULL WHERE workflow = ?", id)
    return { success: true }
  },
  history: (payload: unknown) => {
    const { workflowId, limit, offset } = readPayload(historyPayload, payload)
    const { id } = workflows.find(workflowId)
    const rows = selectAll(
      sql,
      workflowVersionRow,
      "SELECT hash, version, source, notes, session, at FROM workflow_versions WHERE workflow = ? ORDER BY place DESC LIMIT ? OFFSET ?",
      id,
      limit,
      offset,
    )
    return {
      history: rows.map(({ hash, version, source, notes, session, at }) => ({
        workflowHash: hash,
        version,
        source,
        sessionId: session,
        createdAt: at,
        ...(notes !== null && { notes }),
      })),
    }
  },
  rollback: (payload: unknown, session: string) => {
    const { workflowId, targetWorkflowHash, version, notes } = readPayload(rollbackPayload, payload)
    const row = workflows.find(workflowId)
    const target = selectOne(
      sql,
      workflowDataRow,
      "SELECT data FROM workflow_versions WHERE workflow = ? AND hash = ? ORDER BY place DESC LIMIT 1",
      row.id,
      targetWorkflowHash,
    )
    if (!target) throw new Refusal(`the workflow has no version ${targetWorkflowHash}`)
    const change = { data: target.data, version, notes, source: "rollback" } as const
    return { workflow: workflows.show(workflows.setData(row, change, session)) }
  },
})

const slugIsTaken = (sql: Sql, slug: string): boolean =>
  sql.all("SELECT 1 FROM workflows WHERE slug = ?", slug).length > 0
