/** A workflow execution: the order for the runner and the result that it reports. */
import { z } from "zod"

export const workflowOrder = z.object({
  kind: z.enum(["run", "resume"]),
  executionId: z.string(),
  workflowHash: z.string().optional(),
  resumeToken: z.string().optional(),
  decision: z.enum(["approve", "deny"]).optional(),
  payload: z.record(z.string(), z.unknown()),
})

const step = z.object({
  stepId: z.string(),
  status: z.string(),
  attempt: z.int().optional(),
  startedAt: z.string().optional(),
  completedAt: z.string().optional(),
  input: z.unknown().optional(),
  output: z.unknown().optional(),
  error: z.string().optional(),
})

const approval = z.object({
  stepId: z.string(),
  prompt: z.string(),
  items: z.array(z.unknown()),
  resumeToken: z.string(),
})

export const workflowEnvelope = z.object({
  ok: z.boolean(),
  status: z.enum(["ok", "needs_approval", "cancelled", "failed"]),
  executionId: z.string(),
  output: z.unknown().optional(),
  steps: z.array(step).optional(),
  requiresApproval: approval.optional(),
  error: z.string().optional(),
})
