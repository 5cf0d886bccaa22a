/** Proposed changes to workflows: reviewed, then applied, only to the workflow version they were made for. */
import { z } from "zod"
import type { Sql } from "../session/ports.ts"
import { type ProposalRow, proposalRow, selectAll, selectOne } from "../shared-store/rows.ts"
import { readPayload } from "./read-payload.ts"
import { Refusal } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"
import { checkDefinition, type Workflows } from "./workflows.ts"

const text = z.string().min(1)
const listPayload = z.object({
  workflowId: text,
  status: text.optional(),
  limit: z.int().min(1).default(50),
  offset: z.int().min(0).default(0),
})
const createPayload = z.object({
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
const reviewPayload = z.object({
  workflowId: text,
  proposalId: text,
  approve: z.boolean(),
  notes: z.string().optional(),
})
const applyPayload = z.object({
  workflowId: text,
  proposalId: text,
  reviewNotes: z.string().optional(),
  version: text.optional(),
})

const showProposal = (row: ProposalRow) => ({
  id: row.id,
  workflowId: row.workflow,
  baseWorkflowHash: row.base_hash,
  proposal: row.proposal,
  proposedBySessionId: row.session,
  status: row.status,
  createdAt: row.created_at,
  ...(row.diff !== null && { diffText: row.diff }),
  ...(row.execution !== null && { executionId: row.execution }),
  ...(row.notes !== null && { notes: row.notes }),
  ...(row.expires_at !== null && { expiresAt: row.expires_at }),
})

export const proposalActions = (sql: Sql, context: HandlerContext, workflows: Workflows) => {
  const find = (workflow: string, id: string): ProposalRow => {
    const row = selectOne(
      sql,
      proposalRow,
      "SELECT * FROM proposals WHERE id = ? AND workflow = ?",
      id,
      workflow,
    )
    if (!row) throw new Refusal(`there is no proposal ${id} for this workflow`)
    if (row.expires_at !== null && Date.parse(row.expires_at) < context.now()) {
      throw new Refusal("the proposal has expired: make a new one")
    }
    return row
  }
  const setStatus = (id: string, status: ProposalRow["status"], notes: string | undefined) =>
    sql.run(
      "UPDATE proposals SET status = ?, notes = coalesce(?, notes) WHERE id = ?",
      status,
      notes ?? null,
      id,
    )
  return {
    proposals: (payload: unknown) => {
      const { workflowId, status, limit, offset } = readPayload(listPayload, payload)
      const rows = selectAll(
        sql,
        proposalRow,
        "SELECT * FROM proposals WHERE workflow = ? ORDER BY created_at DESC",
        workflows.find(workflowId).id,
      ).filter((row) => status === undefined || row.status === status)
      return { proposals: rows.slice(offset, offset + limit).map(showProposal) }
    },
    "proposal-create": (payload: unknown, session: string) => {
      const proposed = readPayload(createPayload, payload)
      const { id: workflow, hash } = workflows.find(proposed.workflowId)
      if (hash !== proposed.baseWorkflowHash) {
        throw new Refusal(`baseWorkflowHash: the current version of the workflow is ${hash}`)
      }
      checkDefinition(proposed.proposal, "proposal")
      const id = context.newId()
      sql.run(
        `INSERT INTO proposals (id, workflow, base_hash, proposal, diff, execution, session, status, expires_at, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)`,
        id,
        workflow,
        hash,
        JSON.stringify(proposed.proposal),
        proposed.diffText ?? null,
        proposed.executionId ?? null,
        // Not the name in the payload: the author could name another session and then approve the change itself.
        session,
        proposed.expiresAt ?? null,
        context.now(),
      )
      return { proposal: showProposal(find(workflow, id)) }
    },
    "proposal-review": (payload: unknown, session: string) => {
      const { workflowId, proposalId, approve, notes } = readPayload(reviewPayload, payload)
      const row = find(workflows.find(workflowId).id, proposalId)
      if (row.status !== "pending") throw new Refusal(`the proposal is ${row.status} already`)
      if (approve && row.session === session)
        throw new Refusal("a session may not approve its own proposal: another session reviews it")
      setStatus(row.id, approve ? "approved" : "rejected", notes)
      return { success: true }
    },
    "proposal-apply": (payload: unknown, session: string) => {
      const { workflowId, proposalId, reviewNotes, version } = readPayload(applyPayload, payload)
      const workflow = workflows.find(workflowId)
      const row = find(workflow.id, proposalId)
      if (row.status !== "approved")
        throw new Refusal(`the proposal is ${row.status}, not approved`)
      if (row.base_hash !== workflow.hash) {
        throw new Refusal("the workflow has changed since the proposal was made: make a new one")
      }
      const change = {
        data: row.proposal,
        version,
        notes: reviewNotes,
        source: "proposal",
      } as const
      const next = workflows.setData(workflow, change, session)
      setStatus(row.id, "applied", reviewNotes)
      return { success: true, workflow: workflows.show(next) }
    },
  }
}
