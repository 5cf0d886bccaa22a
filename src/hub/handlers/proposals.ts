/** Proposed changes to workflows: reviewed, then applied, and only to the version they were made for. */
import { z } from "zod"
import { one, type Sql } from "../session/ports.ts"
import { readPayload } from "./read-payload.ts"
import { Refusal } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"
import { checkDefinition, type Workflows } from "./workflows.ts"

interface ProposalRow {
  id: string
  workflow: string
  base_hash: string
  proposal: string
  diff: string | null
  execution: string | null
  session: string
  status: string
  notes: string | null
  expires_at: string | null
  created_at: number
}

const text = z.string().min(1)
const list = z.object({
  workflowId: text,
  status: text.optional(),
  limit: z.int().min(1).default(50),
  offset: z.int().min(0).default(0),
})
const made = z.object({
  workflowId: text,
  baseWorkflowHash: text,
  proposal: z.record(z.string(), z.unknown()),
  executionId: text.optional(),
  proposedBySessionId: text.optional(),
  diffText: z.string().optional(),
  expiresAt: z.iso
    .datetime({ offset: true, error: "must be a time such as 2030-01-31T12:00:00Z" })
    .optional(),
})
const review = z.object({
  workflowId: text,
  proposalId: text,
  approve: z.boolean(),
  notes: z.string().optional(),
})
const apply = z.object({
  workflowId: text,
  proposalId: text,
  reviewNotes: z.string().optional(),
  version: text.optional(),
})

const proposalOf = (row: ProposalRow) => ({
  id: row.id,
  workflowId: row.workflow,
  baseWorkflowHash: row.base_hash,
  proposal: JSON.parse(row.proposal) as unknown,
  proposedBySessionId: row.session,
  status: row.status,
  createdAt: row.created_at,
  ...(row.diff !== null && { diffText: row.diff }),
  ...(row.execution !== null && { executionId: row.execution }),
  ...(row.notes !== null && { notes: row.notes }),
  ...(row.expires_at !== null && { expiresAt: row.expires_at }),
})

export const proposalActions = (sql: Sql, tools: HandlerContext, workflows: Workflows) => {
  const find = (workflow: string, id: string): ProposalRow => {
    const row = one(
      sql.all<ProposalRow>("SELECT * FROM proposals WHERE id = ? AND workflow = ?", id, workflow),
    )
    if (!row) throw new Refusal(`there is no proposal ${id} for this workflow`)
    if (row.expires_at !== null && Date.parse(row.expires_at) < tools.now()) {
      throw new Refusal("the proposal has lapsed")
    }
    return row
  }
  const become = (id: string, status: string, notes: string | undefined) =>
    sql.run(
      "UPDATE proposals SET status = ?, notes = coalesce(?, notes) WHERE id = ?",
      status,
      notes ?? null,
      id,
    )
  return {
    proposals: (payload: unknown) => {
      const { workflowId, status, limit, offset } = readPayload(list, payload)
      const rows = sql
        .all<ProposalRow>(
          "SELECT * FROM proposals WHERE workflow = ? ORDER BY created_at DESC",
          workflows.find(workflowId).id,
        )
        .filter((row) => status === undefined || row.status === status)
      return { proposals: rows.slice(offset, offset + limit).map(proposalOf) }
    },
    "proposal-create": (payload: unknown, session: string) => {
      const asked = readPayload(made, payload)
      const { id: workflow, hash } = workflows.find(asked.workflowId)
      if (hash !== asked.baseWorkflowHash) {
        throw new Refusal(`baseWorkflowHash: the workflow is at ${hash} now`)
      }
      checkDefinition(asked.proposal)
      const id = tools.newId()
      sql.run(
        `INSERT INTO proposals (id, workflow, base_hash, proposal, diff, execution, session, status, expires_at, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)`,
        id,
        workflow,
        hash,
        JSON.stringify(asked.proposal),
        asked.diffText ?? null,
        asked.executionId ?? null,
        asked.proposedBySessionId ?? session,
        asked.expiresAt ?? null,
        tools.now(),
      )
      return { proposal: proposalOf(find(workflow, id)) }
    },
    "proposal-review": (payload: unknown) => {
      const { workflowId, proposalId, approve, notes } = readPayload(review, payload)
      const row = find(workflows.find(workflowId).id, proposalId)
      if (row.status !== "pending") throw new Refusal(`the proposal is ${row.status} already`)
      become(row.id, approve ? "approved" : "rejected", notes)
      return { success: true }
    },
    "proposal-apply": (payload: unknown, session: string) => {
      const { workflowId, proposalId, reviewNotes, version } = readPayload(apply, payload)
      const workflow = workflows.find(workflowId)
      const row = find(workflow.id, proposalId)
      if (row.status !== "approved")
        throw new Refusal(`the proposal is ${row.status}, not approved`)
      if (row.base_hash !== workflow.hash) {
        throw new Refusal("the workflow has changed since the proposal was made")
      }
      const data = JSON.parse(row.proposal) as unknown
      const change = { data, version, notes: reviewNotes, source: "proposal" } as const
      const next = workflows.setData(workflow, change, session)
      become(row.id, "applied", reviewNotes)
      return { success: true, workflow: workflows.show(next) }
    },
  }
}
