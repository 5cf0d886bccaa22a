/**
 * Approvals that workflow executions wait for, as clients see them: an interaction each, and the state `approvals` with the open
 * ones. The shared store decides and has the token; here is only what a person needs to decide. Call in a transaction.
 */
import type { WorkflowApproval } from "./ports.ts"
import { interactionRow, readRows } from "./rows.ts"
import type { SessionContext } from "./session-context.ts"

type Context = Pick<SessionContext, "interactions" | "values" | "ports">

export const openApproval = (
  context: Context,
  channel: string,
  { executionId, stepId, ...shown }: WorkflowApproval,
): void => {
  const id = `${executionId}/${stepId}`
  const payload = { executionId, stepId, ...shown }
  context.interactions.open({ id, kind: "approval", channel, promptId: undefined, payload })
  showOpen(context)
}

/** `isApproved` is absent when nobody decided: the run has ended. */
export const closeApproval = (
  context: Context,
  executionId: string,
  isApproved: boolean | undefined,
): void => close(context, (one) => one.executionId === executionId, isApproved)

/** The session has ended. */
export const closeApprovals = (context: Context): void => close(context, () => true, undefined)

const close = (
  context: Context,
  isMeant: (one: Record<string, unknown>) => boolean,
  isApproved: boolean | undefined,
): void => {
  const meant = openOnes(context).filter(isMeant)
  for (const { id } of meant) context.interactions.closeApproval(id, isApproved)
  if (meant.length > 0) showOpen(context)
}

const openOnes = ({ ports }: Context) =>
  readRows(
    ports.sql,
    interactionRow,
    "SELECT * FROM interactions WHERE kind = 'approval' AND status = 'open' ORDER BY at, id",
  ).map(({ id, kind, channel, status, at, payload }) => ({
    id,
    kind,
    channel,
    status,
    at,
    ...payload,
    executionId: payload["executionId"],
  }))

const showOpen = (context: Context): void => {
  const open = openOnes(context)
  if (open.length === 0) context.values.removePublic("approvals")
  else context.values.setPublic("approvals", open)
}
