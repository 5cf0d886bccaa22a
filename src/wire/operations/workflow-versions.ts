/** Versions of a workflow: history, rollback and proposed changes. */
import { z } from "zod"
import { actionOperation } from "./action.ts"
import { entity, flag, openObject, prose, queryNumber, success, text } from "./fields.ts"
import { workflowApi } from "./workflows.ts"
import { renderList, renderValue } from "./render.ts"

const id = text("Id or slug of the workflow")
const pid = text("Id of the proposal")
const offset = queryNumber("Number of entries to skip", { min: 0 }).optional()

export const operations = [
  actionOperation({
    name: "list-workflow-history",
    method: "GET",
    path: "/api/workflows/:id/history",
    doc: "List the versions of a workflow.",
    tools: [
      {
        name: "list_workflow_history",
        description: "List the versions of a workflow with their hashes.",
        render: ({ history }) => renderList(history, "version", "versions"),
      },
    ],
    input: z.object({
      id,
      limit: queryNumber("Maximum number", { min: 1, max: 200 }).optional(),
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
    doc: "Restore an earlier version of a workflow.",
    tools: [
      {
        name: "rollback_workflow",
        description: "Restore an earlier version of a workflow.",
        render: ({ workflow }) => `Rolled back.\n${renderValue(workflow)}`,
      },
    ],
    input: z.object({
      id,
      targetWorkflowHash: text("Hash of the version to restore"),
      version: text("New version number").optional(),
      notes: prose("Reason").optional(),
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
    doc: "List the proposed changes of a workflow.",
    tools: [
      {
        name: "list_workflow_proposals",
        description: "List the proposed changes of a workflow.",
        render: ({ proposals }) => renderList(proposals, "proposal", "proposals"),
      },
    ],
    input: z.object({
      id,
      status: text("Only proposals with this status, such as pending").optional(),
      limit: queryNumber("Maximum number", { min: 1 }).optional(),
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
          "Propose a change to a workflow for review. Take baseWorkflowHash from get_workflow.",
        render: ({ proposal }) => `Proposed.\n${renderValue(proposal)}`,
      },
    ],
    input: z.object({
      id,
      baseWorkflowHash: text("Hash of the current version"),
      proposal: openObject("Proposed definition"),
      executionId: text("Execution that led to it").optional(),
      proposedBySessionId: text("Proposing session; default: this one").optional(),
      diffText: prose("The change as a diff").optional(),
      expiresAt: text("ISO time at which it expires").optional(),
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
        render: () => "Review recorded.",
      },
    ],
    input: z.object({
      id,
      pid,
      approve: flag("true approves, false rejects"),
      notes: prose("Reason").optional(),
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
    doc: "Make an approved proposal the current version of its workflow.",
    tools: [
      {
        name: "apply_workflow_proposal",
        description: "Make an approved proposal the current version of its workflow.",
        render: ({ workflow }) => (workflow ? `Applied.\n${renderValue(workflow)}` : "Applied."),
      },
    ],
    input: z.object({
      id,
      pid,
      reviewNotes: prose("Notes of the review").optional(),
      version: text("New version number").optional(),
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
