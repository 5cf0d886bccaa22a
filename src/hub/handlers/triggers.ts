/**
 * Triggers: a schedule, a webhook or a manual call that starts a workflow or sends a prompt. Each firing has an id, and
 * a repeated id does nothing.
 */
import type { Sql } from "../session/ports.ts"
import { nextTime, parseCron } from "../shared-store/cron.ts"
import type { Effects } from "../shared-store/effects.ts"
import type { Results } from "../shared-store/results.ts"
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

export interface Triggers {
  readonly handlers: Pick<StoreHandlers, "trigger-api">
  /** Fires the schedules that are due. */
  readonly alarm: () => void
  /** When `alarm` must be called next, in ms since 1970. */
  readonly nextAlarm: () => number | undefined
  /** What a call with this secret is answered before its body is read: 202 if the webhook would fire. */
  readonly hookStatus: (id: string, secret: string) => HookAnswer
  /** Fires a webhook. Call inside a transaction. */
  readonly hook: (id: string, call: HookCall) => HookAnswer
}

export interface HookCall {
  readonly secret: string
  readonly data: unknown
  /** The sender's name of this delivery: a repeated one fires nothing and gets the answer of the first. */
  readonly delivery?: string | undefined
}

/** An HTTP status, and for a refusal what is wrong, where, and what to do. */
export type HookAnswer = { readonly status: 202 } | HookRefusal

interface HookRefusal {
  readonly status: 401 | 404 | 422
  readonly problem: string
}

/** What a webhook that does not exist is answered. */
export const noTrigger = (id: string): HookRefusal => ({
  status: 404,
  problem: `there is no enabled webhook trigger ${id}: check the path, or enable the trigger`,
})

const senderOf = (trigger: string) => `hook ${trigger}`

export const createTriggers = (
  sql: Sql,
  context: HandlerContext,
  workflows: Workflows,
  executions: Executions,
  effects: Effects,
  results: Results,
): Triggers => {
  const find = (id: string): TriggerRow => {
    const row = selectOne(sql, triggerRow, "SELECT * FROM triggers WHERE id = ?", id)
    if (!row) throw new Refusal(`there is no trigger ${id}`)
    return row
  }
  const findHook = (id: string, secret: string): { readonly row: TriggerRow } | HookRefusal => {
    const row = selectOne(
      sql,
      triggerRow,
      "SELECT * FROM triggers WHERE id = ? AND type = 'webhook' AND enabled = 1",
      id,
    )
    if (!row) return noTrigger(id)
    if (!isSecretOf(context.digest, row.id, row.config, secret))
      return {
        status: 401,
        problem: `the secret of the trigger ${id} is missing or wrong: send it as "Authorization: Bearer SECRET"`,
      }
    return { row }
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
  const check = (
    config: TriggerConfig,
    workflow: string | null,
    mapping: Readonly<Record<string, unknown>>,
  ) => {
    if (config.type === "schedule" && scheduleDue(config) === null) {
      throw new Refusal(`config.cron: "${config.cron}" matches no date, so it would never fire`)
    }
    if (workflow === null && config.prompt === undefined) {
      throw new Refusal("a trigger needs a workflow to start or a config.prompt to send")
    }
    if (workflow !== null && config.type === "schedule") mapVariables(mapping, scheduleData(0))
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
    const started = start(row, firingId, data, givenVariables)
    sql.run("UPDATE triggers SET last_at = ? WHERE id = ?", context.now(), row.id)
    return started
  }
  const start = (
    row: TriggerRow,
    firingId: string,
    data: unknown,
    givenVariables: Readonly<Record<string, unknown>>,
  ) => {
    if (row.workflow === null) {
      effects.add(firingId, row.session, { do: "prompt", content: row.config.prompt ?? row.name })
      return { prompted: row.session }
    }
    return {
      execution: executions.begin({
        id: firingId,
        workflow: workflows.find(row.workflow),
        session: row.session,
        variables: mapVariables(row.mapping, data, givenVariables),
        trigger: { id: row.id, type: row.type, data },
      }),
    }
  }
  /** What keeps a trigger from firing, or nothing. A refused firing has changed nothing. */
  const problemOf = (row: TriggerRow, work: () => unknown): string | undefined => {
    try {
      work()
      return undefined
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return `the trigger ${row.id} ran nothing: ${error.message}`
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
            check(config, workflow, variableMapping)
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
            const mapping = change.variableMapping ?? row.mapping
            check(config, workflow, mapping)
            save({
              id: row.id,
              name: change.name ?? row.name,
              workflow,
              session: row.session,
              enabled: change.enabled ?? row.enabled,
              config,
              mapping,
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
            results.forget(senderOf(id))
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
        const id = `${row.id}@${row.next_at}`
        const problem = problemOf(row, () => fire(row, id, scheduleData(row.next_at)))
        // Nobody waits for an answer, and the other schedules must fire.
        if (problem !== undefined)
          effects.add(`${id}/refused`, row.session, { do: "note", content: problem })
      }
    },
    nextAlarm: () =>
      selectOne(sql, nextTriggerRow, "SELECT min(next_at) AS at FROM triggers WHERE enabled = 1")
        ?.at ?? undefined,
    hookStatus: (id, secret) => {
      const found = findHook(id, secret)
      return "problem" in found ? found : { status: 202 }
    },
    hook: (id, { secret, data, delivery }) => {
      const found = findHook(id, secret)
      if ("problem" in found) return found
      const { row } = found
      const work = () => void fire(row, `${row.id}#${context.newId()}`, data)
      const problem = problemOf(row, () =>
        delivery === undefined ? work() : results.onceFromOutside(senderOf(id), delivery, work),
      )
      return problem === undefined ? { status: 202 } : { status: 422, problem }
    },
  }
}

/** The data of a firing of a schedule. */
const scheduleData = (at: number | null) => ({ scheduledFor: at })
