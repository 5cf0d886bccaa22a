/** Triggers: a schedule, a webhook or a hand that starts a workflow or writes a prompt; each firing happens once. */
import { one, type Sql } from "../session/ports.ts"
import { sameText } from "../../lib/constant-time.ts"
import { nextTime, parseCron } from "../shared-store/cron.ts"
import type { Effects } from "../shared-store/effects.ts"
import type { Executions } from "./executions.ts"
import { readPayload } from "./read-payload.ts"
import { Refusal, type TableHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"
import {
  changed,
  listed,
  made,
  mapped,
  run,
  type Settings,
  type TriggerRow,
  withoutSecret,
  withSecretOf,
} from "./trigger-settings.ts"
import type { Workflows } from "./workflows.ts"

export interface Triggers {
  readonly handlers: Pick<TableHandlers, "trigger-api">
  /** Fires what is due. */
  readonly alarm: () => void
  readonly nextAlarm: () => number | undefined
  /** A call from outside: the HTTP status it is answered with. Part of a transaction. */
  readonly hook: (id: string, secret: string, data: unknown) => 202 | 401 | 404
}

export const createTriggers = (
  sql: Sql,
  tools: HandlerContext,
  workflows: Workflows,
  executions: Executions,
  effects: Effects,
): Triggers => {
  const find = (id: string): TriggerRow => {
    const row = one(sql.all<TriggerRow>("SELECT * FROM triggers WHERE id = ?", id))
    if (!row) throw new Refusal(`there is no trigger ${id}`)
    return row
  }
  const show = (row: TriggerRow) => ({
    id: row.id,
    name: row.name,
    type: row.type,
    enabled: row.enabled === 1,
    sessionId: row.session,
    config: withoutSecret(JSON.parse(row.config) as Record<string, unknown>),
    variableMapping: JSON.parse(row.mapping) as unknown,
    ...(row.workflow !== null && { workflowId: row.workflow }),
    ...(row.next_at !== null && { nextAt: row.next_at }),
    ...(row.last_at !== null && { lastAt: row.last_at }),
    ...(row.type === "webhook" && { path: `/hooks/${row.id}` }),
  })
  const dueAfter = (config: Settings, enabled: boolean, after: number): number | null => {
    if (config.type !== "schedule" || !enabled) return null
    try {
      return nextTime(parseCron(config.cron), after, config.timezone) ?? null
    } catch (error) {
      throw new Refusal(`config.cron: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  const check = (config: Settings, workflow: string | null) => {
    dueAfter(config, true, tools.now())
    if (workflow === null && config.prompt === undefined) {
      throw new Refusal("a trigger needs a workflow to start or a config.prompt to write")
    }
  }

  /** `id` names this firing: the same one again does nothing. */
  const fire = (
    row: TriggerRow,
    id: string,
    data: unknown,
    given: Record<string, unknown> = {},
  ) => {
    const config = JSON.parse(row.config) as Settings
    sql.run("UPDATE triggers SET last_at = ? WHERE id = ?", tools.now(), row.id)
    if (row.workflow === null) {
      effects.add(id, row.session, { do: "prompt", content: config.prompt ?? row.name })
      return { prompted: row.session }
    }
    const variables = {
      ...mapped(JSON.parse(row.mapping) as Record<string, unknown>, data),
      ...given,
    }
    return {
      execution: executions.begin({
        id,
        workflow: workflows.find(row.workflow),
        session: row.session,
        variables,
        trigger: { id: row.id, type: row.type, data },
      }),
    }
  }

  const put = (row: Omit<TriggerRow, "last_at" | "created_at">) =>
    sql.run(
      `INSERT INTO triggers (id, name, type, workflow, session, enabled, config, mapping, next_at, created_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET name = excluded.name, type = excluded.type, workflow = excluded.workflow,
         enabled = excluded.enabled, config = excluded.config, mapping = excluded.mapping, next_at = excluded.next_at`,
      row.id,
      row.name,
      row.type,
      row.workflow,
      row.session,
      row.enabled,
      row.config,
      row.mapping,
      row.next_at,
      tools.now(),
    )

  const workflowOf = (key: string | null | undefined) =>
    key === null || key === undefined ? null : workflows.find(key).id

  return {
    handlers: {
      "trigger-api": ({ action, payload }, { session, requestId }) => {
        switch (action) {
          case "list": {
            const { workflowId, type, enabled } = readPayload(listed, payload)
            const rows = sql
              .all<TriggerRow>("SELECT * FROM triggers ORDER BY created_at")
              .filter((row) => workflowId === undefined || row.workflow === workflowOf(workflowId))
              .filter((row) => type === undefined || row.type === type)
              .filter((row) => enabled === undefined || (row.enabled === 1) === enabled)
            return { data: { triggers: rows.map(show) } }
          }
          case "create": {
            const { name, workflowId, enabled, config, variableMapping } = readPayload(
              made,
              payload,
            )
            const workflow = workflowOf(workflowId)
            check(config, workflow)
            const secret = config.type === "webhook" ? (config.secret ?? tools.newId()) : undefined
            const kept = secret === undefined ? config : { ...config, secret }
            const id = tools.newId()
            put({
              id,
              name,
              workflow,
              session,
              type: config.type,
              enabled: Number(enabled),
              config: JSON.stringify(kept),
              mapping: JSON.stringify(variableMapping),
              next_at: dueAfter(config, enabled, tools.now()),
            })
            // The secret is told once, to whoever made the trigger.
            return {
              data: {
                trigger: { ...show(find(id)), ...(secret !== undefined && { secret }) },
                success: true,
              },
            }
          }
          case "update": {
            const change = readPayload(changed, payload)
            const row = find(change.triggerId)
            const before = JSON.parse(row.config) as Settings
            const config = change.config ? withSecretOf(change.config, before) : before
            const enabled = change.enabled ?? row.enabled === 1
            const workflow =
              change.workflowId === undefined ? row.workflow : workflowOf(change.workflowId)
            check(config, workflow)
            put({
              id: row.id,
              name: change.name ?? row.name,
              workflow,
              session: row.session,
              type: config.type,
              enabled: Number(enabled),
              config: JSON.stringify(config),
              mapping: change.variableMapping
                ? JSON.stringify(change.variableMapping)
                : row.mapping,
              next_at: dueAfter(config, enabled, tools.now()),
            })
            return { data: { trigger: show(find(row.id)), success: true } }
          }
          case "run": {
            const { triggerId, variables } = readPayload(run, payload)
            return { data: fire(find(triggerId), `run-${requestId}`, {}, variables) }
          }
          case "delete": {
            const { id } = find(readPayload(run, payload).triggerId)
            sql.run("DELETE FROM triggers WHERE id = ?", id)
            return { data: { success: true } }
          }
        }
      },
    },
    alarm: () => {
      const due = sql.all<TriggerRow>(
        "SELECT * FROM triggers WHERE enabled = 1 AND next_at IS NOT NULL AND next_at <= ?",
        tools.now(),
      )
      for (const row of due) {
        const config = JSON.parse(row.config) as Settings
        // Times that passed while nobody was there are made up for once, not one by one.
        sql.run(
          "UPDATE triggers SET next_at = ? WHERE id = ?",
          dueAfter(config, true, tools.now()),
          row.id,
        )
        fire(row, `${row.id}@${row.next_at}`, { scheduledFor: row.next_at })
      }
    },
    nextAlarm: () =>
      one(
        sql.all<{ at: number | null }>("SELECT min(next_at) AS at FROM triggers WHERE enabled = 1"),
      )?.at ?? undefined,
    hook: (id, secret, data) => {
      const row = one(
        sql.all<TriggerRow>(
          "SELECT * FROM triggers WHERE id = ? AND type = 'webhook' AND enabled = 1",
          id,
        ),
      )
      if (!row) return 404
      const { secret: expected } = JSON.parse(row.config) as { secret?: string }
      if (expected === undefined || !sameText(secret, expected)) return 401
      fire(row, `${row.id}#${tools.newId()}`, data)
      return 202
    },
  }
}
