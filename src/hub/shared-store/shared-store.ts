/** What all sessions of a hub share, and the answers that come out of it: each request is carried out once. */
import type { Outbound, RequestFrame } from "../../wire/frames/index.ts"
import { type Alarm, one, type Sql } from "../session/ports.ts"
import { createEffects, type Deliver } from "./effects.ts"
import { createExecutions, executionHandlers } from "../handlers/executions.ts"
import { mailboxHandlers } from "../handlers/mailbox.ts"
import { memoryHandlers } from "../handlers/memories.ts"
import { proposalActions } from "../handlers/proposals.ts"
import { migrateCommons } from "./schema.ts"
import {
  answerFromTables,
  type Asker,
  isTableRequest,
  type TableHandlers,
} from "../handlers/handler-table.ts"
import { taskHandlers } from "../handlers/tasks.ts"
import type { HandlerContext } from "../handlers/handler-context.ts"
import { createTriggers } from "../handlers/triggers.ts"
import { workflowActions } from "../handlers/workflow-actions.ts"
import { createWorkflows, workflowHandlers } from "../handlers/workflows.ts"

export interface SharedStoreOptions {
  readonly sql: Sql
  readonly tools: HandlerContext
  readonly alarm: Alarm
  readonly deliver: Deliver
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void
}

export interface SharedStore {
  /** The answer, or nothing when the tables cannot give it. Throws a Refusal in words for the asker. */
  readonly answer: (session: string, frame: RequestFrame) => Record<string, unknown> | undefined
  readonly executed: (
    id: string,
    envelope: Outbound<"workflow-execution-result">["envelope"],
  ) => void
  readonly hook: (trigger: string, secret: string, data: unknown) => 202 | 401 | 404
  readonly alarm: () => void
  /** Arms the alarm and hands out what an earlier life did not get to. */
  readonly start: () => void
}

export const createSharedStore = ({
  sql,
  tools,
  alarm,
  deliver,
  report,
}: SharedStoreOptions): SharedStore => {
  migrateCommons(sql)
  const effects = createEffects(sql, deliver, (error) =>
    report("hub.effect-failed", { error: String(error) }),
  )
  const workflows = createWorkflows(sql, tools)
  const executions = createExecutions(sql, tools, effects)
  const triggers = createTriggers(sql, tools, workflows, executions, effects)
  const actions = { ...workflowActions(sql, workflows), ...proposalActions(sql, tools, workflows) }
  const handlers: TableHandlers = {
    ...memoryHandlers(sql, tools),
    ...taskHandlers(sql, tools),
    ...mailboxHandlers(sql, tools),
    ...workflowHandlers(sql, tools, workflows),
    ...executionHandlers(sql, tools, workflows, executions, effects),
    ...triggers.handlers,
    "workflow-api": ({ action, payload }, { session }) => ({
      data: actions[action](payload, session),
    }),
  }

  const commit = <Result>(work: () => Result): Result => {
    const result = sql.transaction(work)
    alarm.set(triggers.nextAlarm())
    void effects.deliver()
    return result
  }

  const once = (asker: Asker, work: () => Record<string, unknown>): Record<string, unknown> => {
    const key = `${asker.session}/${asker.requestId}`
    const known = one(
      sql.all<{ result: string }>("SELECT result FROM rpc WHERE request_id = ?", key),
    )
    if (known) return JSON.parse(known.result) as Record<string, unknown>
    const result = work()
    sql.run(
      "INSERT INTO rpc (request_id, result, at) VALUES (?, ?, ?)",
      key,
      JSON.stringify(result),
      tools.now(),
    )
    return result
  }

  return {
    answer: (session, frame) => {
      if (!isTableRequest(handlers, frame)) return undefined
      const asker = { session, requestId: frame.requestId }
      return commit(() => once(asker, () => answerFromTables(handlers, frame, asker)))
    },
    executed: (id, envelope) => commit(() => executions.executed(id, envelope)),
    hook: (trigger, secret, data) => commit(() => triggers.hook(trigger, secret, data)),
    alarm: () => commit(triggers.alarm),
    start: () => commit(() => {}),
  }
}
