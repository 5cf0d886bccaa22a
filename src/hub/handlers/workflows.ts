/** Workflow definitions. Every change is stored as a version with its hash, so that it can be rolled back. */
import { z } from "zod"
import type { Sql } from "../session/ports.ts"
import {
  selectAll,
  selectOne,
  triggerRow,
  type WorkflowRow,
  workflowRow,
} from "../shared-store/rows.ts"
import { Refusal, type StoreHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"
import { hashWorkflow } from "../../wire/workflow/canonical.ts"
import { parseWorkflow } from "../../wire/workflow/definition.ts"
import { countSteps, variablesOf } from "../../wire/workflow/variables.ts"

export interface Workflows {
  /** By id or slug. Throws a Refusal when there is none. */
  readonly find: (key: string) => WorkflowRow
  readonly show: (row: WorkflowRow) => Record<string, unknown>
  /** Stores the definition as a new version and makes it the current one. An unchanged definition stores nothing. */
  readonly setData: (row: WorkflowRow, change: DataChange, session: string) => WorkflowRow
}

interface DataChange {
  readonly data: unknown
  readonly version?: string | undefined
  readonly source: "sync" | "update" | "rollback" | "proposal"
  readonly notes?: string | undefined
}

export const createWorkflows = (sql: Sql, { now, digest }: HandlerContext): Workflows => {
  const find = (key: string) => {
    const row = selectOne(
      sql,
      workflowRow,
      "SELECT * FROM workflows WHERE id = ? OR slug = ?",
      key,
      key,
    )
    if (!row) throw new Refusal(`there is no workflow ${key}`)
    return row
  }
  return {
    find,
    show: (row) => ({
      id: row.id,
      slug: row.slug,
      name: row.name,
      description: row.description ?? "",
      version: row.version,
      enabled: row.enabled,
      tags: row.tags,
      data: row.data,
      workflowHash: row.hash,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    }),
    setData: (row, { data, version, source, notes }, session) => {
      checkDefinition(data)
      const next = {
        hash: hashWorkflow(data, digest),
        version: version ?? nextVersion(row.version),
      }
      if (next.hash === row.hash && version === undefined) return row
      sql.run(
        "UPDATE workflows SET data = ?, hash = ?, version = ?, updated_at = ? WHERE id = ?",
        JSON.stringify(data),
        next.hash,
        next.version,
        now(),
        row.id,
      )
      storeVersion(sql, row.id, { ...next, data, source, notes, session, at: now() })
      return find(row.id)
    },
  }
}

const storeVersion = (
  sql: Sql,
  workflow: string,
  stored: {
    hash: string
    version: string
    data: unknown
    source: string
    notes?: string | undefined
    session: string
    at: number
  },
): void =>
  sql.run(
    "INSERT INTO workflow_versions (workflow, hash, version, data, source, notes, session, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    workflow,
    stored.hash,
    stored.version,
    JSON.stringify(stored.data),
    stored.source,
    stored.notes ?? null,
    stored.session,
    stored.at,
  )

const definition = z.looseObject({ steps: z.array(z.unknown()).min(1) })

/** Also the check of the runner, so that what is stored can run. `field` is where the caller sent the definition. */
export const checkDefinition = (data: unknown, field = "data"): void => {
  if (!definition.safeParse(data).success)
    throw new Refusal(`${field}.steps: must be a list of at least one step`)
  try {
    parseWorkflow(data)
  } catch (error) {
    const lines = (error instanceof Error ? error.message : String(error)).split("\n")
    const placed = lines.map((line) => `${field}${line.startsWith("steps.") ? "." : ": "}${line}`)
    throw new Refusal(placed.join("\n"))
  }
}

/** Increments the last number; a version without a number gets ".1". */
const nextVersion = (version: string): string =>
  /\d+$/.test(version)
    ? version.replace(/\d+$/, (digits) => String(Number(digits) + 1))
    : `${version}.1`

const slugify = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "") || "workflow"

/** What a reader chooses by: the definition may be long and is read by id. */
const summarize = (sql: Sql, { id, slug, name, description, enabled, data }: WorkflowRow) => ({
  id,
  slug,
  name,
  description: description ?? "",
  enabled,
  triggers: selectAll(
    sql,
    triggerRow,
    "SELECT * FROM triggers WHERE workflow = ? ORDER BY created_at",
    id,
  ).map((trigger) => ({
    id: trigger.id,
    name: trigger.name,
    type: trigger.type,
    enabled: trigger.enabled,
  })),
  steps: countSteps(data),
  variables: variablesOf(data),
})

export const workflowHandlers = (
  sql: Sql,
  context: HandlerContext,
  workflows: Workflows,
): Pick<StoreHandlers, "workflow-list" | "workflow-sync"> => ({
  "workflow-list": () => ({
    workflows: selectAll(sql, workflowRow, "SELECT * FROM workflows ORDER BY name").map((row) =>
      summarize(sql, row),
    ),
  }),
  "workflow-sync": ({ id, slug, name, description, version, data }, { session }) => {
    const known = selectOne(
      sql,
      workflowRow,
      "SELECT * FROM workflows WHERE id = ? OR slug = ?",
      id ?? "",
      slug ?? slugify(name),
    )
    if (known) {
      const change = { data, version, source: "sync" } as const
      const row = workflows.setData(known, change, session)
      sql.run(
        "UPDATE workflows SET name = ?, description = coalesce(?, description) WHERE id = ?",
        name,
        description ?? null,
        row.id,
      )
      return { success: true, workflow: workflows.show(workflows.find(row.id)) }
    }
    checkDefinition(data)
    const created = {
      id: id ?? context.newId(),
      hash: hashWorkflow(data, context.digest),
      version: version ?? "1.0.0",
    }
    sql.run(
      `INSERT INTO workflows (id, slug, name, description, version, data, hash, created_at, updated_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      created.id,
      slug ?? slugify(name),
      name,
      description ?? null,
      created.version,
      JSON.stringify(data),
      created.hash,
      context.now(),
      context.now(),
    )
    storeVersion(sql, created.id, { ...created, data, source: "sync", session, at: context.now() })
    return { success: true, workflow: workflows.show(workflows.find(created.id)) }
  },
})
