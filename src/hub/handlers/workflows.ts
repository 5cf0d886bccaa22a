/** Workflows: kept in versions, each named by its hash, so that every change can be taken back. */
import { one, type Sql } from "../session/ports.ts"
import { Refusal, type TableHandlers } from "./handler-table.ts"
import type { HandlerContext } from "./handler-context.ts"
import { hashWorkflow } from "../../wire/workflow/canonical.ts"

export interface WorkflowRow {
  id: string
  slug: string
  name: string
  description: string | null
  version: string
  enabled: number
  tags: string
  data: string
  hash: string
  created_at: number
  updated_at: number
}

export interface Workflows {
  /** By id or by slug; refuses when there is none. */
  readonly find: (key: string) => WorkflowRow
  readonly show: (row: WorkflowRow) => Record<string, unknown>
  /** Makes this definition the current one, as a version of its own. */
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
    const row = one(
      sql.all<WorkflowRow>("SELECT * FROM workflows WHERE id = ? OR slug = ?", key, key),
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
      enabled: row.enabled === 1,
      tags: JSON.parse(row.tags) as unknown,
      data: JSON.parse(row.data) as unknown,
      workflowHash: row.hash,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    }),
    setData: (row, { data, version, source, notes }, session) => {
      checkDefinition(data)
      const named = {
        hash: hashWorkflow(data, digest),
        version: version ?? nextVersion(row.version),
      }
      const same = named.hash === row.hash && version === undefined
      if (same) return row
      sql.run(
        "UPDATE workflows SET data = ?, hash = ?, version = ?, updated_at = ? WHERE id = ?",
        JSON.stringify(data),
        named.hash,
        named.version,
        now(),
        row.id,
      )
      keepVersion(sql, row.id, { ...named, data, source, notes, session, at: now() })
      return find(row.id)
    },
  }
}

const keepVersion = (
  sql: Sql,
  workflow: string,
  kept: {
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
    kept.hash,
    kept.version,
    JSON.stringify(kept.data),
    kept.source,
    kept.notes ?? null,
    kept.session,
    kept.at,
  )

export const checkDefinition = (data: unknown): void => {
  const steps = (data as { steps?: unknown } | undefined)?.steps
  if (!Array.isArray(steps) || steps.length === 0) {
    throw new Refusal("data.steps: a workflow is a list of at least one step")
  }
}

/** The last number of a version goes up; a version without one gets it. */
const nextVersion = (version: string): string =>
  /\d+$/.test(version)
    ? version.replace(/\d+$/, (digits) => String(Number(digits) + 1))
    : `${version}.1`

const slugOf = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "") || "workflow"

export const workflowHandlers = (
  sql: Sql,
  tools: HandlerContext,
  workflows: Workflows,
): Pick<TableHandlers, "workflow-list" | "workflow-sync"> => ({
  "workflow-list": () => ({
    workflows: sql.all<WorkflowRow>("SELECT * FROM workflows ORDER BY name").map(workflows.show),
  }),
  "workflow-sync": ({ id, slug, name, description, version, data }, { session }) => {
    const known = one(
      sql.all<WorkflowRow>(
        "SELECT * FROM workflows WHERE id = ? OR slug = ?",
        id ?? "",
        slug ?? slugOf(name),
      ),
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
    const made = {
      id: id ?? tools.newId(),
      hash: hashWorkflow(data, tools.digest),
      version: version ?? "1.0.0",
    }
    sql.run(
      `INSERT INTO workflows (id, slug, name, description, version, data, hash, created_at, updated_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      made.id,
      slug ?? slugOf(name),
      name,
      description ?? null,
      made.version,
      JSON.stringify(data),
      made.hash,
      tools.now(),
      tools.now(),
    )
    keepVersion(sql, made.id, { ...made, data, source: "sync", session, at: tools.now() })
    return { success: true, workflow: workflows.show(workflows.find(made.id)) }
  },
})
