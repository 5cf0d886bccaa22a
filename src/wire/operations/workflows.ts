/** Workflows: create, read, change, delete and run. */
import { z } from "zod"
import { actionOperation, actionRequest } from "./action.ts"
import { unchanged, sessionOperation, wireRequest } from "./define.ts"
import {
  entity,
  flag,
  noInput,
  openObject,
  prose,
  queryNumber,
  success,
  text,
  texts,
} from "./fields.ts"
import { renderList, renderValue } from "./render.ts"

const workflowList = wireRequest("workflow-list", 15_000, {}, { workflows: z.array(entity) })

const workflowSync = wireRequest(
  "workflow-sync",
  15_000,
  {
    id: z.string().optional(),
    slug: z.string().optional(),
    name: z.string(),
    description: z.string().optional(),
    version: z.string().optional(),
    data: entity,
  },
  { success: z.boolean(), workflow: entity },
)

const workflowRun = wireRequest(
  "workflow-run",
  15_000,
  {
    workflowId: z.string(),
    variables: entity.optional(),
    repoUrl: z.string().optional(),
    branch: z.string().optional(),
    ref: z.string().optional(),
    sourceRepoFullName: z.string().optional(),
  },
  { execution: entity },
)

const workflowExecutions = wireRequest(
  "workflow-executions",
  15_000,
  { workflowId: z.string().optional(), limit: z.int().optional() },
  { executions: z.array(entity) },
)

export const workflowApi = actionRequest("workflow-api", [
  "get",
  "update",
  "delete",
  "history",
  "rollback",
  "proposals",
  "proposal-create",
  "proposal-review",
  "proposal-apply",
])

export const requests = [
  workflowList,
  workflowSync,
  workflowRun,
  workflowExecutions,
  workflowApi,
] as const

/** The variables and repository of an execution, the same for run_workflow and run_trigger. */
export const runInput = {
  variables: openObject("Values of the workflow's variables").optional(),
  repoUrl: text("Run in a child session with a clone of this repository").optional(),
  branch: text(
    "Branch to check out or create there; default repository: this session's",
  ).optional(),
  ref: text("Commit or tag to start from there").optional(),
  sourceRepoFullName: text("owner/name of the source repository").optional(),
}

const id = text("Id or slug of the workflow")

const one = z.object({ workflow: entity })

export const operations = [
  sessionOperation({
    name: "list-workflows",
    method: "GET",
    path: "/api/workflows",
    doc: "List the workflows: what each is for, its triggers, number of steps and variables, without its definition.",
    tools: [
      {
        name: "list_workflows",
        description: "List the workflows without their definitions, which get_workflow reads.",
        render: ({ workflows }) => renderList(workflows, "workflow", "workflows"),
      },
    ],
    input: noInput,
    output: workflowList.result,
    request: workflowList,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "sync-workflow",
    method: "POST",
    path: "/api/workflows/sync",
    doc: "Create a workflow, or replace the one with the same id or slug.",
    tools: [
      {
        name: "sync_workflow",
        description:
          "Create a workflow, or replace the one with the same id or slug. Read the skill `workflows` for the definition format.",
        render: ({ workflow }) => `Saved.\n${renderValue(workflow)}`,
      },
    ],
    input: z.object({
      id: text("Id of the workflow to replace").optional(),
      slug: text("Unique short name").optional(),
      name: text("Name"),
      description: prose("Purpose").optional(),
      version: text("Version; default: the next one").optional(),
      data: openObject("Definition: {steps: [...]}"),
    }),
    output: workflowSync.result,
    request: workflowSync,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "run-workflow",
    method: "POST",
    path: "/api/workflows/run",
    doc: "Start an execution of a workflow.",
    tools: [
      {
        name: "run_workflow",
        description: "Start a workflow. Returns at once; check the result with get_execution.",
        render: ({ execution }) => `Started.\n${renderValue(execution)}`,
      },
    ],
    input: z.object({ workflowId: id, ...runInput }),
    output: workflowRun.result,
    request: workflowRun,
    toFields: unchanged,
    toReply: unchanged,
  }),
  sessionOperation({
    name: "list-workflow-executions",
    method: "GET",
    path: "/api/workflows/executions",
    doc: "List the executions of one workflow or of all.",
    tools: [
      {
        name: "list_workflow_executions",
        description: "List the executions of one workflow or of all, newest first.",
        render: ({ executions }) => renderList(executions, "execution", "executions"),
      },
    ],
    input: z.object({
      workflowId: text("Only executions of this workflow").optional(),
      limit: queryNumber("Maximum number", { min: 1, max: 200 }).optional(),
    }),
    output: workflowExecutions.result,
    request: workflowExecutions,
    toFields: unchanged,
    toReply: unchanged,
  }),
  actionOperation({
    name: "get-workflow",
    method: "GET",
    path: "/api/workflows/:id",
    doc: "Read a workflow with its definition.",
    tools: [
      {
        name: "get_workflow",
        description: "Read a workflow with its definition.",
        render: ({ workflow }) => renderValue(workflow),
      },
    ],
    input: z.object({ id }),
    output: one,
    request: workflowApi,
    action: "get",
    toPayload: (input) => ({ workflowId: input.id }),
  }),
  actionOperation({
    name: "update-workflow",
    method: "PUT",
    path: "/api/workflows/:id",
    doc: "Change a workflow; absent fields keep their value.",
    tools: [
      {
        name: "update_workflow",
        description: "Change a workflow. `data` replaces the entire definition.",
        render: ({ workflow }) => `Saved.\n${renderValue(workflow)}`,
      },
    ],
    input: z.object({
      id,
      name: text("Name").optional(),
      description: prose("Purpose").optional(),
      slug: text("Unique short name").optional(),
      version: text("Version; default: the next one").optional(),
      enabled: flag("false disables it").optional(),
      tags: texts("Tags").optional(),
      data: openObject("Definition: {steps: [...]}").optional(),
    }),
    output: one,
    request: workflowApi,
    action: "update",
    toPayload: ({ id: workflowId, ...rest }) => ({ workflowId, ...rest }),
  }),
  actionOperation({
    name: "delete-workflow",
    method: "DELETE",
    path: "/api/workflows/:id",
    doc: "Delete a workflow.",
    tools: [
      {
        name: "delete_workflow",
        description: "Delete a workflow and disable its triggers.",
        render: () => "The workflow is deleted.",
      },
    ],
    input: z.object({ id }),
    output: success,
    request: workflowApi,
    action: "delete",
    toPayload: (input) => ({ workflowId: input.id }),
  }),
] as const
