/** Runs of workflows: begun once, carried out by a session's runner, decided on, ended once. */
import { z } from "zod"
import type { Outbound } from "../../wire/frames/index.ts"
import { one, type Sql } from "../session/ports.ts"
import type { Effects } from "../shared-store/effects.ts"
import { readPayload } from "./read-payload.ts"
import { Refusal, type TableHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"
import type { WorkflowRow, Workflows } from "./workflows.ts"

type Envelope = Outbound<"workflow-execution-result">["envelope"]

interface ExecutionRow {
  id: string
  workflow: string
  hash: string
  session: string
  trigger_id: string | null
  status: string
  variables: string
  steps: string
  output: string | null
  error: string | null
  approval: string | null
  started_at: number
  ended_at: number | null
}

export interface Begin {
  readonly id: string
  readonly workflow: WorkflowRow
  readonly session: string
  readonly variables?: unknown
  readonly trigger?: { readonly id: string; readonly type: string; readonly data?: unknown }
  readonly source?: unknown
}

export interface Executions {
  /** An id that is known begins nothing. */
  readonly begin: (run: Begin) => Record<string, unknown>
  /** What the runner says of a run. */
  readonly executed: (id: string, envelope: Envelope) => void
}

const target = z.object({ executionId: z.string().min(1) })
const decision = target.extend({
  approve: z.boolean(),
  resumeToken: z.string().min(1),
  reason: z.string().optional(),
})
const cancel = target.extend({ reason: z.string().optional() })

const executionOf = (row: ExecutionRow) => ({
  id: row.id,
  workflowId: row.workflow,
  workflowHash: row.hash,
  sessionId: row.session,
  status: row.status,
  variables: JSON.parse(row.variables) as unknown,
  startedAt: row.started_at,
  ...(row.trigger_id !== null && { triggerId: row.trigger_id }),
  ...(row.output !== null && { output: JSON.parse(row.output) as unknown }),
  ...(row.error !== null && { error: row.error }),
  ...(row.approval !== null && { requiresApproval: JSON.parse(row.approval) as unknown }),
  ...(row.ended_at !== null && { endedAt: row.ended_at }),
})

const find = (sql: Sql, id: string) => {
  const row = one(sql.all<ExecutionRow>("SELECT * FROM executions WHERE id = ?", id))
  if (!row) throw new Refusal(`there is no run ${id}`)
  return row
}

const statuses = {
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
    if (workflow.enabled !== 1) throw new Refusal(`the workflow ${workflow.slug} is disabled`)
    const made = sql.all(
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
    if (made.length > 0) {
      const payload = {
        workflow: JSON.parse(workflow.data) as unknown,
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
    return executionOf(find(sql, id))
  },
  executed: (id, envelope) => {
    const status = statuses[envelope.status]
    const token = envelope.requiresApproval?.resumeToken
    const [cancelled] = sql.all<ExecutionRow>(
      "SELECT * FROM executions WHERE id = ? AND status = 'cancelled'",
      id,
    )
    // It came to its approval before it heard of the cancel, and would wait for ever.
    if (cancelled && token !== undefined) return resume(sql, cancelled, token, "deny", effects)
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
})

export const executionHandlers = (
  sql: Sql,
  tools: HandlerContext,
  workflows: Workflows,
  executions: Executions,
  effects: Effects,
): Pick<TableHandlers, "workflow-run" | "workflow-executions" | "execution-api"> => ({
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
    const rows = sql
      .all<ExecutionRow>("SELECT * FROM executions ORDER BY started_at DESC")
      .filter((row) => id === undefined || row.workflow === id)
    return { executions: rows.slice(0, limit).map(executionOf) }
  },
  "execution-api": ({ action, payload }) => {
    switch (action) {
      case "get":
        return {
          data: { execution: executionOf(find(sql, readPayload(target, payload).executionId)) },
        }
      case "steps": {
        const { steps } = find(sql, readPayload(target, payload).executionId)
        return { data: { steps: JSON.parse(steps) as unknown } }
      }
      case "approve": {
        const asked = readPayload(decision, payload)
        const row = find(sql, asked.executionId)
        const approval = JSON.parse(row.approval ?? "{}") as { resumeToken?: string }
        if (row.status !== "waiting_approval")
          throw new Refusal(`the run is ${row.status}: it waits for no decision`)
        if (approval.resumeToken !== asked.resumeToken)
          throw new Refusal("resumeToken: is not the one that came with the approval")
        sql.run("UPDATE executions SET status = 'running', approval = NULL WHERE id = ?", row.id)
        resume(sql, row, asked.resumeToken, asked.approve ? "approve" : "deny", effects)
        return { data: { success: true, status: asked.approve ? "running" : "cancelled" } }
      }
      case "cancel": {
        const { executionId, reason } = readPayload(cancel, payload)
        const row = find(sql, executionId)
        if (row.ended_at !== null) throw new Refusal(`the run is ${row.status} already`)
        const approval = JSON.parse(row.approval ?? "{}") as { resumeToken?: string }
        if (approval.resumeToken !== undefined)
          resume(sql, row, approval.resumeToken, "deny", effects)
        else effects.add(`${row.id}/cancel`, row.session, { do: "cancel", executionId: row.id })
        sql.run(
          "UPDATE executions SET status = 'cancelled', approval = NULL, error = ?, ended_at = ? WHERE id = ?",
          reason ?? "cancelled",
          tools.now(),
          row.id,
        )
        return { data: { success: true, status: "cancelled" } }
      }
    }
  },
})

const resume = (
  sql: Sql,
  row: ExecutionRow,
  resumeToken: string,
  decision_: "approve" | "deny",
  effects: Effects,
): void => {
  const { data } = one(
    sql.all<{ data: string }>(
      "SELECT data FROM workflow_versions WHERE workflow = ? AND hash = ? ORDER BY place DESC LIMIT 1",
      row.workflow,
      row.hash,
    ),
  ) ?? { data: "{}" }
  const payload = {
    workflow: JSON.parse(data) as unknown,
    variables: JSON.parse(row.variables) as unknown,
  }
  effects.add(`${row.id}/${resumeToken}`, row.session, {
    do: "order",
    frame: {
      type: "workflow-execute",
      executionId: row.id,
      payload: { kind: "resume", executionId: row.id, resumeToken, decision: decision_, payload },
    },
  })
}
