/** Workflows: kept, run, and looked up. */
import { z } from "zod"
import { actionOperation, actionRequest } from "./action.ts"
import { same, sessionOperation, wireRequest } from "./define.ts"
import {
  entity,
  flag,
  nothing,
  openObject,
  prose,
  queryNumber,
  success,
  text,
  texts,
} from "./fields.ts"
import { listed, shown } from "./render.ts"

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

/** Where a run gets its variables and its code from, the same for a workflow and a trigger. */
export const runInput = {
  variables: openObject("Values for the workflow's variables").optional(),
  repoUrl: text("Repository the run works on").optional(),
  branch: text("Branch the run works on").optional(),
  ref: text("Commit or tag the run works on").optional(),
  sourceRepoFullName: text("owner/name of the repository the run came from").optional(),
}

const id = text("The workflow's id or slug")

const one = z.object({ workflow: entity })

export const operations = [
  sessionOperation({
    name: "list-workflows",
    method: "GET",
    path: "/api/workflows",
    doc: "List the workflows.",
    tools: [
      {
        name: "list_workflows",
        description: "List the workflows.",
        render: ({ workflows }) => listed(workflows, "workflow", "workflows"),
      },
    ],
    input: nothing,
    output: workflowList.result,
    request: workflowList,
    toFields: same,
    toReply: same,
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
          "Create a workflow, or replace the one with the same id or slug. `data` is the definition, {steps: [...]}; the skill `workflows` describes it.",
        render: ({ workflow }) => `Saved.\n${shown(workflow)}`,
      },
    ],
    input: z.object({
      id: text("The workflow to replace").optional(),
      slug: text("Short name in addresses").optional(),
      name: text("Name of the workflow"),
      description: prose("What it is for").optional(),
      version: text("Version of the definition").optional(),
      data: openObject("The definition: its steps"),
    }),
    output: workflowSync.result,
    request: workflowSync,
    toFields: same,
    toReply: same,
  }),
  sessionOperation({
    name: "run-workflow",
    method: "POST",
    path: "/api/workflows/run",
    doc: "Start a run of a workflow.",
    tools: [
      {
        name: "run_workflow",
        description:
          "Start a run of a workflow. Returns at once; follow the run with get_execution.",
        render: ({ execution }) => `Started.\n${shown(execution)}`,
      },
    ],
    input: z.object({ workflowId: id, ...runInput }),
    output: workflowRun.result,
    request: workflowRun,
    toFields: same,
    toReply: same,
  }),
  sessionOperation({
    name: "list-workflow-executions",
    method: "GET",
    path: "/api/workflows/executions",
    doc: "List the runs of one workflow, or of all.",
    tools: [
      {
        name: "list_workflow_executions",
        description: "List the runs of one workflow, or of all, newest first.",
        render: ({ executions }) => listed(executions, "run", "runs"),
      },
    ],
    input: z.object({
      workflowId: text("Only runs of this workflow").optional(),
      limit: queryNumber("How many at most", { min: 1, max: 200 }).optional(),
    }),
    output: workflowExecutions.result,
    request: workflowExecutions,
    toFields: same,
    toReply: same,
  }),
  actionOperation({
    name: "get-workflow",
    method: "GET",
    path: "/api/workflows/:id",
    doc: "Read one workflow with its definition.",
    tools: [
      {
        name: "get_workflow",
        description: "Read one workflow with its definition.",
        render: ({ workflow }) => shown(workflow),
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
    doc: "Change a workflow; what is left out stays.",
    tools: [
      {
        name: "update_workflow",
        description:
          "Change a workflow. What is left out stays; `data` replaces the whole definition.",
        render: ({ workflow }) => `Saved.\n${shown(workflow)}`,
      },
    ],
    input: z.object({
      id,
      name: text("Name of the workflow").optional(),
      description: prose("What it is for").optional(),
      slug: text("Short name in addresses").optional(),
      version: text("Version of the definition").optional(),
      enabled: flag("Whether it may run").optional(),
      tags: texts("Words to find it by").optional(),
      data: openObject("The definition: its steps").optional(),
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
        description: "Delete a workflow. Its triggers start nothing from then on.",
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
