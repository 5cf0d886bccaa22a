/** The actions of `workflow-api` that are about a workflow itself: reading, changing, its past. */
import { z } from "zod"
import { one, type Sql } from "../session/ports.ts"
import { readPayload } from "./read-payload.ts"
import { Refusal } from "./handler-table.ts"
import type { Workflows } from "./workflows.ts"

const text = z.string().min(1)
const target = z.object({ workflowId: text })

const changes = target.extend({
  name: text.optional(),
  description: z.string().optional(),
  slug: text.optional(),
  version: text.optional(),
  enabled: z.boolean().optional(),
  tags: z.array(text).optional(),
  data: z.record(z.string(), z.unknown()).optional(),
})

const page = target.extend({
  limit: z.int().min(1).max(200).default(50),
  offset: z.int().min(0).default(0),
})

const rollback = target.extend({
  targetWorkflowHash: text,
  version: text.optional(),
  notes: z.string().optional(),
})

export const workflowActions = (sql: Sql, workflows: Workflows) => ({
  get: (payload: unknown) => {
    const { workflowId } = readPayload(target, payload)
    return { workflow: workflows.show(workflows.find(workflowId)) }
  },
  update: (payload: unknown, session: string) => {
    const change = readPayload(changes, payload)
    const row = workflows.find(change.workflowId)
    if (change.slug !== undefined && change.slug !== row.slug && isTaken(sql, change.slug)) {
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
    const { id } = workflows.find(readPayload(target, payload).workflowId)
    sql.run("DELETE FROM workflows WHERE id = ?", id)
    sql.run("UPDATE triggers SET enabled = 0, next_at = NULL WHERE workflow = ?", id)
    return { success: true }
  },
  history: (payload: unknown) => {
    const { workflowId, limit, offset } = readPayload(page, payload)
    const { id } = workflows.find(workflowId)
    const rows = sql.all<{
      hash: string
      version: string
      source: string
      notes: string | null
      session: string
      at: number
    }>(
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
    const { workflowId, targetWorkflowHash, version, notes } = readPayload(rollback, payload)
    const row = workflows.find(workflowId)
    const kept = one(
      sql.all<{ data: string }>(
        "SELECT data FROM workflow_versions WHERE workflow = ? AND hash = ? ORDER BY place DESC LIMIT 1",
        row.id,
        targetWorkflowHash,
      ),
    )
    if (!kept) throw new Refusal(`the workflow has had no version ${targetWorkflowHash}`)
    const change = {
      data: JSON.parse(kept.data) as unknown,
      version,
      notes,
      source: "rollback",
    } as const
    return { workflow: workflows.show(workflows.setData(row, change, session)) }
  },
})

const isTaken = (sql: Sql, slug: string): boolean =>
  sql.all("SELECT 1 FROM workflows WHERE slug = ?", slug).length > 0
