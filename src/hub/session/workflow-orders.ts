/** Workflow runs that the runner carries out. Orders and cancels are sent on every connection until they are answered. */
import type { Inbound } from "../../wire/frames/index.ts"
import { closeApproval } from "./approvals.ts"
import { cancelRow, hasRow, orderRow, readOrder, readRows } from "./rows.ts"
import type { SessionContext } from "./session-context.ts"

/** A denial only ends a run that waits for approval, so it is accepted for a cancelled run too. */
const isDenial = ({ payload }: Inbound<"workflow-execute">): boolean => payload.decision === "deny"

/** Idempotent: the same id is the same order. */
export const addOrder = (
  context: SessionContext,
  id: string,
  frame: Inbound<"workflow-execute">,
): void => {
  const { sql } = context.ports
  const { kind, decision } = frame.payload
  if (kind === "resume") closeApproval(context, frame.executionId, decision === "approve")
  const isCancelled = hasRow(sql, "SELECT 1 FROM cancels WHERE execution = ?", frame.executionId)
  if (isCancelled && !isDenial(frame)) return
  sql.run("INSERT OR IGNORE INTO orders (id, frame) VALUES (?, ?)", id, JSON.stringify(frame))
}

/** Deletes the run's orders and sends the runner an abort, because it may have received one of them. */
export const cancelExecution = (
  { ports: { sql }, sendToRunner }: SessionContext,
  execution: string,
): void => {
  const isNew = hasRow(
    sql,
    "INSERT OR IGNORE INTO cancels (execution) VALUES (?) RETURNING execution",
    execution,
  )
  if (!isNew) return
  sql.run(
    `DELETE FROM orders WHERE json_extract(frame, '$.executionId') = ?
       AND json_extract(frame, '$.payload.decision') IS NOT 'deny'`,
    execution,
  )
  sendToRunner(abortFrame(execution))
}

/** The runner has stored the run. If its disk is lost, the next runner must not start the run again. */
export const markDelivered = ({ ports: { sql } }: SessionContext, execution: string): void =>
  sql.run(
    `UPDATE orders SET frame = json_set(frame, '$.delivered', json('true'))
       WHERE json_extract(frame, '$.executionId') = ?`,
    execution,
  )

/** The run has ended or waits for an approval: its orders are done. */
export const completeOrders = (context: SessionContext, execution: string): void => {
  context.ports.sql.run(
    "DELETE FROM orders WHERE json_extract(frame, '$.executionId') = ?",
    execution,
  )
  confirmCancel(context, execution)
}

/** The run is stopped, has ended, or is unknown to the runner. The row stays, for an order that arrives late. */
export const confirmCancel = ({ ports: { sql } }: SessionContext, execution: string): void =>
  sql.run("UPDATE cancels SET answered = 1 WHERE execution = ?", execution)

/** Unanswered orders and cancels may have been lost with the last connection; the runner ignores duplicates. */
export const resendOrders = ({ ports: { sql }, sendToRunner }: SessionContext): void => {
  sql.run("UPDATE orders SET sent = 0")
  const open = readRows(sql, cancelRow, "SELECT execution FROM cancels WHERE answered = 0")
  for (const { execution } of open) sendToRunner(abortFrame(execution))
}

/**
 * An order that another state directory was sent may have begun there without a report. It is sent as delivered, so that a
 * runner without its journal answers that the run has failed. The epoch is written before the frame leaves.
 */
export const sendOrders = (context: SessionContext): void => {
  const { ports, sendToRunner, runnerConnection } = context
  const { sql } = ports
  const epoch = runnerConnection.state().epoch ?? ""
  sql.run(
    `UPDATE orders SET frame = json_set(frame, '$.delivered', json('true'))
       WHERE sent = 0 AND epoch IS NOT NULL AND epoch <> ?`,
    epoch,
  )
  const orders = readRows(
    sql,
    orderRow,
    "UPDATE orders SET sent = 1, epoch = coalesce(epoch, ?) WHERE sent = 0 RETURNING frame",
    epoch,
  )
  for (const { frame } of orders) sendToRunner(readOrder(frame))
}

/** The channel type of a workflow run; the channel id is the execution's id. */
export const WORKFLOW_CHANNEL = "workflow"

const abortFrame = (execution: string): Inbound<"abort"> => ({
  type: "abort",
  channelType: WORKFLOW_CHANNEL,
  channelId: execution,
})
