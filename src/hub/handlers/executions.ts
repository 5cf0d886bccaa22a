/**
 * Executions of workflows. A session's runner carries them out; this file stores their state and sends approvals and
 * cancels. The first end of an execution counts.
 */
import { z } from "zod"
import type { Outbound } from "../../wire/frames/index.ts"
import type { DecisionOutcome, ExecutionDecision, Sql } from "../session/ports.ts"
import type { Effects } from "../shared-store/effects.ts"
import {
  type ExecutionRow,
  executionRow,
  selectAll,
  selectOne,
  workflowDataRow,
  type WorkflowRow,
} from "../shared-store/rows.ts"
import { readPayload } from "./read-payload.ts"
import { Refusal, type StoreHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"
import type { Workflows } from "./workflows.ts"

type Envelope = Outbound<"workflow-execution-result">["envelope"]

interface NewExecution {
  readonly id: string
  readonly workflow: WorkflowRow
  readonly session: string
  readonly variables?: unknown
  readonly trigger?: { readonly id: string; readonly type: string; readonly data?: unknown }
  readonly source?: unknown
}

export interface Executions {
  /** Starts an execution, or returns the existing one when the id is known. */
  readonly begin: (execution: NewExecution) => Record<string, unknown>
  /** A client of the session decides about an execution that waits for an approval. */
  readonly decide: (session: string, decision: ExecutionDecision) => DecisionOutcome
  /** Stores the result that the runner reports. */
  readonly executed: (id: string, envelope: Envelope) => void
  /** The runner will never report a result: its session is gone. */
  readonly failed: (id: string, error: string) => void
}

const targetPayload = z.object({ executionId: z.string().min(1) })
const cancelPayload = targetPayload.extend({ reason: z.string().optional() })

/** A runner never sees the token: its holder could approve in a person's place. */
const withoutToken = ({ resumeToken: _token, ...shown }: { readonly resumeToken: string }) => shown

const showExecution = (row: ExecutionRow) => ({
  id: row.id,
  workflowId: row.workflow,
  workflowHash: row.hash,
  sessionId: row.session,
  status: row.status,
  variables: row.variables,
  startedAt: row.started_at,
  ...(row.trigger_id !== null && { triggerId: row.trigger_id }),
  ...(row.output !== undefined && { output: row.output }),
  ...(row.error !== null && { error: row.error }),
  ...(row.approval !== undefined && { requiresApproval: withoutToken(row.approval) }),
  ...(row.ended_at !== null && { endedAt: row.ended_at }),
})

const find = (sql: Sql, id: string) => {
  const row = selectOne(sql, executionRow, "SELECT * FROM executions WHERE id = ?", id)
  if (!row) throw new Refusal(`there is no execution ${id}`)
  return row
}

const statusOfEnvelope = {
  ok: "completed",
  needs_approval: "waiting_approval",
  cancelled: "cancelled",
  failed: "failed",
} as const

export const createExecutions = (
  sql: Sql,
  { now }: HandlerContext,
  effects: Effects,
): Executions => ({
  begin: ({ id, workflow, session, variables = {}, trigger, source }) => {
    if (!workflow.enabled)
      throw new Refusal(`the workflow ${workflow.slug} is disabled: enable it first`)
    const inserted = sql.all(
      `INSERT OR IGNORE INTO executions (id, workflow, hash, session, trigger_id, status, variables, started_at)
       VALUES (?, ?, ?, ?, ?, 'running', ?, ?) RETURNING id`,
      id,
      workflow.id,
      workflow.hash,
      session,
      trigger?.id ?? null,
      JSON.stringify(variables),
      now(),
    )
    if (inserted.length > 0) {
      const payload = {
        workflow: workflow.data,
        variables,
        ...(trigger && { trigger }),
        ...(source !== undefined && { source }),
        runtime: { idempotencyKey: id },
      }
      const frame = {
        type: "workflow-execute",
        executionId: id,
        payload: { kind: "run", executionId: id, payload },
      } as const
      effects.add(id, session, { do: "order", frame })
    }
    return showExecution(find(sql, id))
  },
  decide: (session, { executionId, isApproved }) => {
    const row = selectOne(
      sql,
      executionRow,
      "SELECT * FROM executions WHERE id = ? AND session = ?",
      executionId,
      session,
    )
    if (!row)
      return { ok: false, isUnknown: true, message: `execution ${executionId} does not exist` }
    if (row.status !== "waiting_approval" || row.approval === undefined) {
      const message = `the execution is ${row.status}, not waiting for an approval`
      return { ok: false, isUnknown: false, message }
    }
    sql.run("UPDATE executions SET status = 'running', approval = NULL WHERE id = ?", row.id)
    resume(sql, row, row.approval.resumeToken, isApproved ? "approve" : "deny", effects)
    return { ok: true, status: isApproved ? "running" : "cancelled" }
  },
  executed: (id, envelope) => {
    const status = statusOfEnvelope[envelope.status]
    const token = envelope.requiresApproval?.resumeToken
    const cancelled = selectOne(
      sql,
      executionRow,
      "SELECT * FROM executions WHERE id = ? AND status = 'cancelled'",
      id,
    )
    // The execution reached its approval before the runner received the cancel. Without a denial it would wait for good.
    if (cancelled && token !== undefined) return resume(sql, cancelled, token, "deny", effects)
    if (token !== undefined) askForApproval(sql, id, token, envelope, effects)
    sql.run(
      `UPDATE executions SET status = ?, steps = ?, output = ?, error = ?, approval = ?, ended_at = ?
       WHERE id = ? AND status IN ('running', 'waiting_approval')`,
      status,
      JSON.stringify(envelope.steps ?? []),
      envelope.output === undefined ? null : JSON.stringify(envelope.output),
      envelope.error ?? null,
      envelope.requiresApproval === undefined ? null : JSON.stringify(envelope.requiresApproval),
      status === "waiting_approval" ? null : now(),
      id,
    )
  },
  failed: (id, error) =>
    sql.run(
      `UPDATE executions SET status = 'failed', error = ?, approval = NULL, ended_at = ?
       WHERE id = ? AND status IN ('running', 'waiting_approval')`,
      error,
      now(),
      id,
    ),
})

export const executionHandlers = (
  sql: Sql,
  { now }: HandlerContext,
  workflows: Workflows,
  executions: Executions,
  effects: Effects,
): Pick<StoreHandlers, "workflow-run" | "workflow-executions" | "execution-api"> => ({
  "workflow-run": ({ workflowId, variables, ...source }, { session, requestId }) => ({
    execution: executions.begin({
      id: `run-${requestId}`,
      workflow: workflows.find(workflowId),
      session,
      variables,
      source,
    }),
  }),
  "workflow-executions": ({ workflowId, limit = 50 }) => {
    const id = workflowId === undefined ? undefined : workflows.find(workflowId).id
    const rows = selectAll(
      sql,
      executionRow,
      "SELECT * FROM executions ORDER BY started_at DESC",
    ).filter((row) => id === undefined || row.workflow === id)
    return { executions: rows.slice(0, limit).map(showExecution) }
  },
  "execution-api": ({ action, payload }) => {
    switch (action) {
      case "get":
        return {
          data: {
            execution: showExecution(find(sql, readPayload(targetPayload, payload).executionId)),
          },
        }
      case "steps": {
        const { steps } = find(sql, readPayload(targetPayload, payload).executionId)
        return { data: { steps } }
      }
      case "cancel": {
        const { executionId, reason } = readPayload(cancelPayload, payload)
        const row = find(sql, executionId)
        if (row.ended_at !== null) throw new Refusal(`the execution is ${row.status} already`)
        if (row.approval !== undefined) resume(sql, row, row.approval.resumeToken, "deny", effects)
        else effects.add(`${row.id}/cancel`, row.session, { do: "cancel", executionId: row.id })
        sql.run(
          "UPDATE executions SET status = 'cancelled', approval = NULL, error = ?, ended_at = ? WHERE id = ?",
          reason ?? "cancelled",
          now(),
          row.id,
        )
        return { data: { success: true, status: "cancelled" } }
      }
    }
  },
})

/** A note in the conversation: people see there what waits for them. */
const askForApproval = (
  sql: Sql,
  id: string,
  token: string,
  { requiresApproval }: Envelope,
  effects: Effects,
): void => {
  const row = selectOne(
    sql,
    executionRow,
    "SELECT * FROM executions WHERE id = ? AND status = 'running'",
    id,
  )
  if (!row || !requiresApproval) return
  const { stepId, items } = requiresApproval
  const question = requiresApproval.prompt.slice(0, MAX_QUESTION)
  const content = `A workflow waits for an approval: ${question}\nApprove or deny execution ${id} (approve-execution).`
  const approval = {
    executionId: id,
    stepId,
    text: question,
    ...(JSON.stringify(items).length <= MAX_ITEMS && { items }),
  }
  effects.add(`${id}/${token}/ask`, row.session, { do: "note", content, approval })
}

const MAX_QUESTION = 2000
/** Characters of the items that clients get. All of them are in the execution. */
const MAX_ITEMS = 20_000

const resume = (
  sql: Sql,
  row: ExecutionRow,
  resumeToken: string,
  decision: "approve" | "deny",
  effects: Effects,
): void => {
  const version = selectOne(
    sql,
    workflowDataRow,
    "SELECT data FROM workflow_versions WHERE workflow = ? AND hash = ? ORDER BY place DESC LIMIT 1",
    row.workflow,
    row.hash,
  )
  const payload = { workflow: version?.data ?? {}, variables: row.variables }
  effects.add(`${row.id}/${resumeToken}`, row.session, {
    do: "order",
    frame: {
      type: "workflow-execute",
      executionId: row.id,
      payload: { kind: "resume", executionId: row.id, resumeToken, decision, payload },
    },
  })
}
