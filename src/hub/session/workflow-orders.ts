/** Runs of workflows that the runner carries out: ordered until they are answered, and once cancelled, stopped for good. */
import type { Inbound } from "../../wire/frames/index.ts"
import type { SessionContext } from "./session-context.ts"

/** A denial only ends a run that waits: it is taken of one that is cancelled too. */
const ends = ({ payload }: Inbound<"workflow-execute">): boolean => payload.decision === "deny"

/** The same id again is the same order. */
export const takeOrder = (
  { ports: { sql } }: SessionContext,
  id: string,
  frame: Inbound<"workflow-execute">,
): void => {
  const cancelled = sql.all("SELECT 1 FROM cancels WHERE execution = ?", frame.executionId)
  if (cancelled.length > 0 && !ends(frame)) return
  sql.run("INSERT OR IGNORE INTO orders (id, frame) VALUES (?, ?)", id, JSON.stringify(frame))
}

/** A run that the runner has not heard of yet is not ordered any more; one that it may have heard of is stopped. */
export const cancelRun = ({ ports: { sql }, say }: SessionContext, execution: string): void => {
  const fresh = sql.all(
    "INSERT OR IGNORE INTO cancels (execution) VALUES (?) RETURNING execution",
    execution,
  )
  if (fresh.length === 0) return
  sql.run(
    `DELETE FROM orders WHERE json_extract(frame, '$.executionId') = ?
       AND json_extract(frame, '$.payload.decision') IS NOT 'deny'`,
    execution,
  )
  say(stopOf(execution))
}

/** The run has ended, or waits for a decision: what was ordered of it is done. */
export const answerOrders = (parts: SessionContext, execution: string): void => {
  parts.ports.sql.run(
    "DELETE FROM orders WHERE json_extract(frame, '$.executionId') = ?",
    execution,
  )
  confirmCancel(parts, execution)
}

/** The run is stopped, or over, or unknown to the runner. The row stays: an order that comes late finds it. */
export const confirmCancel = ({ ports: { sql } }: SessionContext, execution: string): void =>
  sql.run("UPDATE cancels SET answered = 1 WHERE execution = ?", execution)

/** What has no answer yet may have been lost on the way; a runner that has it answers it once all the same. */
export const orderAgain = ({ ports: { sql }, say }: SessionContext): void => {
  sql.run("UPDATE orders SET sent = 0")
  const open = sql.all<{ execution: string }>("SELECT execution FROM cancels WHERE answered = 0")
  for (const { execution } of open) say(stopOf(execution))
}

export const sendOrders = ({ ports: { sql }, say }: SessionContext): void => {
  const orders = sql.all<{ frame: string }>(
    "UPDATE orders SET sent = 1 WHERE sent = 0 RETURNING frame",
  )
  for (const { frame } of orders) say(JSON.parse(frame) as Parameters<typeof say>[0])
}

/** A run's channel bears its name. */
export const WORKFLOW_CHANNEL = "workflow"

const stopOf = (execution: string): Inbound<"abort"> => ({
  type: "abort",
  channelType: WORKFLOW_CHANNEL,
  channelId: execution,
})
