/**
 * Triggers: a schedule, a webhook or a manual call that starts a workflow or sends a prompt. Each firing has an id, and
 * a repeated id does nothing.
 */
import type { Sql } from "../session/ports.ts"
import { nextTime, parseCron } from "../shared-store/cron.ts"
import type { Effects } from "../shared-store/effects.ts"
import {
  nextTriggerRow,
  selectAll,
  selectOne,
  type TriggerConfig,
  type TriggerRow,
  triggerRow,
} from "../shared-store/rows.ts"
import type { Executions } from "./executions.ts"
import { readPayload } from "./read-payload.ts"
import { Refusal, type StoreHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"
import {
  createPayload,
  listPayload,
  mapVariables,
  runPayload,
  targetPayload,
  updatePayload,
  withoutSecret,
} from "./trigger-payloads.ts"
import { hideSecret, isSecretOf } from "./webhook-secrets.ts"
import type { Workflows } from "./workflows.ts"

export type HookStatus = 202 | 401 | 404

export interface Triggers {
  readonly handlers: Pick<StoreHandlers, "trigger-api">
  /** Fires the schedules that are due. */
  readonly alarm: () => void
  /** When `alarm` must be called next, in ms since 1970. */
  readonly nextAlarm: () => number | undefined
  /** The HTTP status of a call with this secret: 202 if the webhook would fire. */
  readonly hookStatus: (id: string, secret: string) => HookStatus
  /** Fires a webhook and returns the HTTP status. Call inside a transaction. */
  readonly hook: (id: string, secret: string, data: unknown) => HookStatus
}

export const createTriggers = (
  sql: Sql,
  context: HandlerContext,
  workflows: Workflows,
  executions: Executions,
  effects: Effects,
): Triggers => {
  const find = (id: string): TriggerRow => {
    const row = selectOne(sql, triggerRow, "SELECT * FROM triggers WHERE id = ?", id)
    if (!row) throw new Refusal(`there is no trigger ${id}`)
    return row
  }
  const findHook = (id: string, secret: string): TriggerRow | 401 | 404 => {
    const row = selectOne(
      sql,
      triggerRow,
      "SELECT * FROM triggers WHERE id = ? AND type = 'webhook' AND enabled = 1",
      id,
    )
    if (!row) return 404
    return isSecretOf(context.digest, row.id, row.config, secret) ? row : 401
  }
  const show = (row: TriggerRow) => ({
    id: row.id,
    name: row.name,
    type: row.type,
    enabled: row.enabled,
    sessionId: row.session,
    config: withoutSecret(row.config),
    variableMapping: row.mapping,
    ...(row.workflow !== null && { workflowId: row.workflow }),
    ...(row.next_at !== null && { nextAt: row.next_at }),
    ...(row.last_at !== null && { lastAt: row.last_at }),
    ...(row.type === "webhook" && { path: `/hooks/${row.id}` }),
  })
  const nextDue = (config: TriggerConfig, enabled: boolean): number | null =>
    config.type === "schedule" && enabled
      ? (nextTime(parseCron(config.cron, config.timezone), context.now()) ?? null)
      : null

  /** Refuses a schedule that is invalid or has no future date, and a trigger that would do nothing. */
  const check = (config: TriggerConfig, workflow: string | null) => {
    if (config.type === "schedule" && scheduleDue(config) === null) {
      throw new Refusal(`config.cron: "${config.cron}" matches no date, so it would never fire`)
    }
    if (workflow === null && config.prompt === undefined) {
      throw new Refusal("a trigger needs a workflow to start or a config.prompt to send")
    }
  }
  const scheduleDue = (config: TriggerConfig): number | null => {
    try {
      return nextDue(config, true)
    } catch (error) {
      throw new Refusal(`config.cron: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  const fire = (
    row: TriggerRow,
    firingId: string,
    data: unknown,
    givenVariables: Readonly<Record<string, unknown>> = {},
  ) => {
    sql.run("UPDATE triggers SET last_at = ? WHERE id = ?", context.now(), row.id)
    if (row.workflow === null) {
      effects.add(firingId, row.session, { do: "prompt", content: row.config.prompt ?? row.name })
      return { prompted: row.session }
    }
    return {
      execution: executions.begin({
        id: firingId,
        workflow: workflows.find(row.workflow),
        session: row.session,
        variables: { ...mapVariables(row.mapping, data), ...givenVariables },
        trigger: { id: row.id, type: row.type, data },
      }),
    }
  }

  const save = (trigger: {
    readonly id: string
    readonly name: string
    readonly workflow: string | null
    readonly session: string
    readonly enabled: boolean
    readonly config: TriggerConfig
    readonly mapping: Readonly<Record<string, unknown>>
  }) =>
    sql.run(
      `INSERT INTO triggers (id, name, type, workflow, session, enabled, config, mapping, next_at, created_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET name = excluded.name, type = excluded.type, workflow = excluded.workflow,
         enabled = excluded.enabled, config = excluded.config, mapping = excluded.mapping, next_at = excluded.next_at`,
      trigger.id,
      trigger.name,
      trigger.config.type,
      trigger.workflow,
      trigger.session,
      Number(trigger.enabled),
      JSON.stringify(trigger.config),
      JSON.stringify(trigger.mapping),
      nextDue(trigger.config, trigger.enabled),
      context.now(),
    )

  const workflowIdOf = (key: string | null | undefined) =>
    key === null || key === undefined ? null : workflows.find(key).id

  return {
    handlers: {
      "trigger-api": ({ action, payload }, { session, requestId }) => {
        switch (action) {
          case "list": {
            const { workflowId, type, enabled } = readPayload(listPayload, payload)
            const rows = selectAll(sql, triggerRow, "SELECT * FROM triggers ORDER BY created_at")
              .filter(
                (row) => workflowId === undefined || row.workflow === workflowIdOf(workflowId),
              )
              .filter((row) => type === undefined || row.type === type)
              .filter((row) => enabled === undefined || row.enabled === enabled)
            return { data: { triggers: rows.map(show) } }
          }
          case "create": {
            const { name, workflowId, enabled, config, variableMapping } = readPayload(
              createPayload,
              payload,
            )
            const workflow = workflowIdOf(workflowId)
            check(config, workflow)
            const secret =
              config.type === "webhook" ? (config.secret ?? context.newId()) : undefined
            const id = (context.newTriggerId ?? context.newId)()
            save({
              id,
              name,
              workflow,
              session,
              enabled,
              config: hideSecret(
                context.digest,
                id,
                secret === undefined ? config : { ...config, secret },
              ),
              mapping: variableMapping,
            })
            // Only this result contains the secret: `list` and `update` leave it out.
            return {
              data: {
                trigger: { ...show(find(id)), ...(secret !== undefined && { secret }) },
                success: true,
              },
            }
          }
          case "update": {
            const change = readPayload(updatePayload, payload)
            const row = find(change.triggerId)
            const config = change.config
              ? hideSecret(context.digest, row.id, change.config, row.config)
              : row.config
            const workflow =
              change.workflowId === undefined ? row.workflow : workflowIdOf(change.workflowId)
            check(config, workflow)
            save({
              id: row.id,
              name: change.name ?? row.name,
              workflow,
              session: row.session,
              enabled: change.enabled ?? row.enabled,
              config,
              mapping: change.variableMapping ?? row.mapping,
            })
            return { data: { trigger: show(find(row.id)), success: true } }
          }
          case "run": {
            const { triggerId, variables } = readPayload(runPayload, payload)
            return { data: fire(find(triggerId), `run-${requestId}`, {}, variables) }
          }
          case "delete": {
            const { id } = find(readPayload(targetPayload, payload).triggerId)
            sql.run("DELETE FROM triggers WHERE id = ?", id)
            return { data: { success: true } }
          }
        }
      },
    },
    alarm: () => {
      const due = selectAll(
        sql,
        triggerRow,
        "SELECT * FROM triggers WHERE enabled = 1 AND next_at IS NOT NULL AND next_at <= ?",
        context.now(),
      )
      for (const row of due) {
        // Several times missed while the hub was down cause one firing.
        sql.run("UPDATE triggers SET next_at = ? WHERE id = ?", nextDue(row.config, true), row.id)
        fire(row, `${row.id}@${row.next_at}`, { scheduledFor: row.next_at })
      }
    },
    nextAlarm: () =>
      selectOne(sql, nextTriggerRow, "SELECT min(next_at) AS at FROM triggers WHERE enabled = 1")
        ?.at ?? undefined,
    hookStatus: (id, secret) => {
      const row = findHook(id, secret)
      return typeof row === "number" ? row : 202
    },
    hook: (id, secret, data) => {
      const row = findHook(id, secret)
      if (typeof row === "number") return row
      fire(row, `${row.id}#${context.newId()}`, data)
      return 202
    },
  }
}
