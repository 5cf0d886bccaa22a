/** A workflow's past and its proposed future: history, rollback and proposals. */
import { z } from "zod"
import { actionOperation } from "./action.ts"
import { entity, flag, openObject, prose, queryNumber, success, text } from "./fields.ts"
import { workflowApi } from "./workflows.ts"
import { listed, shown } from "./render.ts"

const id = text("The workflow's id or slug")
const pid = text("The proposal's id")
const offset = queryNumber("How many to leave out first", { min: 0 }).optional()

export const operations = [
  actionOperation({
    name: "list-workflow-history",
    method: "GET",
    path: "/api/workflows/:id/history",
    doc: "List the versions a workflow has had.",
    tools: [
      {
        name: "list_workflow_history",
        description: "List the versions that a workflow has had, with their hashes.",
        render: ({ history }) => listed(history, "version", "versions"),
      },
    ],
    input: z.object({
      id,
      limit: queryNumber("How many at most", { min: 1, max: 200 }).optional(),
      offset,
    }),
    output: z.object({ history: z.array(entity) }),
    request: workflowApi,
    action: "history",
    toPayload: ({ id: workflowId, ...rest }) => ({ workflowId, ...rest }),
  }),
  actionOperation({
    name: "rollback-workflow",
    method: "POST",
    path: "/api/workflows/:id/rollback",
    doc: "Go back to an earlier version of a workflow.",
    tools: [
      {
        name: "rollback_workflow",
        description: "Go back to an earlier version of a workflow, named by its hash.",
        render: ({ workflow }) => `Rolled back.\n${shown(workflow)}`,
      },
    ],
    input: z.object({
      id,
      targetWorkflowHash: text("Hash of the version to go back to"),
      version: text("Version to give the result").optional(),
      notes: prose("Why").optional(),
    }),
    output: z.object({ workflow: entity }),
    request: workflowApi,
    action: "rollback",
    toPayload: ({ id: workflowId, ...rest }) => ({ workflowId, ...rest }),
  }),
  actionOperation({
    name: "list-workflow-proposals",
    method: "GET",
    path: "/api/workflows/:id/proposals",
    doc: "List the changes that were proposed for a workflow.",
    tools: [
      {
        name: "list_workflow_proposals",
        description: "List the changes that were proposed for a workflow.",
        render: ({ proposals }) => listed(proposals, "proposal", "proposals"),
      },
    ],
    input: z.object({
      id,
      status: text("Only proposals in this status").optional(),
      limit: queryNumber("How many at most", { min: 1 }).optional(),
      offset,
    }),
    output: z.object({ proposals: z.array(entity) }),
    request: workflowApi,
    action: "proposals",
    toPayload: ({ id: workflowId, ...rest }) => ({ workflowId, ...rest }),
  }),
  actionOperation({
    name: "create-workflow-proposal",
    method: "POST",
    path: "/api/workflows/:id/proposals",
    doc: "Propose a change to a workflow.",
    tools: [
      {
        name: "create_workflow_proposal",
        description:
          "Propose a change to a workflow, for somebody to review. Take baseWorkflowHash from get_workflow or list_workflow_history.",
        render: ({ proposal }) => `Proposed.\n${shown(proposal)}`,
      },
    ],
    input: z.object({
      id,
      baseWorkflowHash: text("Hash of the version the change starts from"),
      proposal: openObject("The proposed definition"),
      executionId: text("The run that led to it").optional(),
      proposedBySessionId: text("The session that proposes it").optional(),
      diffText: prose("The change as text").optional(),
      expiresAt: text("When the proposal lapses").optional(),
    }),
    output: z.object({ proposal: entity }),
    request: workflowApi,
    action: "proposal-create",
    toPayload: ({ id: workflowId, ...rest }) => ({ workflowId, ...rest }),
  }),
  actionOperation({
    name: "review-workflow-proposal",
    method: "POST",
    path: "/api/workflows/:id/proposals/:pid/review",
    doc: "Approve or reject a proposed change.",
    tools: [
      {
        name: "review_workflow_proposal",
        description: "Approve or reject a proposed change of a workflow.",
        render: () => "The review is recorded.",
      },
    ],
    input: z.object({
      id,
      pid,
      approve: flag("Whether the change is good"),
      notes: prose("Why").optional(),
    }),
    output: success,
    request: workflowApi,
    action: "proposal-review",
    toPayload: ({ id: workflowId, pid: proposalId, ...rest }) => ({
      workflowId,
      proposalId,
      ...rest,
    }),
  }),
  actionOperation({
    name: "apply-workflow-proposal",
    method: "POST",
    path: "/api/workflows/:id/proposals/:pid/apply",
    doc: "Make a proposed change the workflow's current version.",
    tools: [
      {
        name: "apply_workflow_proposal",
        description: "Make an approved proposal the current version of its workflow.",
        render: ({ workflow }) => (workflow ? `Applied.\n${shown(workflow)}` : "Applied."),
      },
    ],
    input: z.object({
      id,
      pid,
      reviewNotes: prose("What the review said").optional(),
      version: text("Version to give the result").optional(),
    }),
    output: z.object({ success: z.boolean(), workflow: entity.optional() }),
    request: workflowApi,
    action: "proposal-apply",
    toPayload: ({ id: workflowId, pid: proposalId, ...rest }) => ({
      workflowId,
      proposalId,
      ...rest,
    }),
  }),
] as const
