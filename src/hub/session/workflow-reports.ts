/**
 * Results of workflow runs for the shared store. A report is a row, stored in the transaction of the runner's frame, until
 * the shared store has it. A failed delivery is retried by the alarm; the store ignores a report that it knows.
 */
import { MAIN_CHANNEL } from "../../wire/channel.ts"
import { z } from "zod"
import { backoffMs } from "../../lib/backoff.ts"
import { jsonColumn } from "../../lib/json.ts"
import type { Outbound } from "../../wire/frames/index.ts"
import type { Deadlines } from "./deadlines.ts"
import type { Messages } from "./messages.ts"
import type { Ports } from "./ports.ts"
import { hasRow, readRow } from "./rows.ts"

type Envelope = Outbound<"workflow-execution-result">["envelope"]

export interface WorkflowReports {
  /** Inside the transaction of the frame. */
  readonly add: (execution: string, envelope: Envelope) => void
  /** The deadline of a failed report has passed: the next `send` tries again. */
  readonly retry: () => void
  /** Sends what is not confirmed, in order. Call after a commit and after a restart. */
  readonly send: (commit: (work: () => void) => void) => void
}

const reportRow = z.object({
  place: z.number(),
  execution: z.string(),
  envelope: jsonColumn(z.custom<Envelope>((value) => typeof value === "object" && value !== null)),
  attempts: z.number(),
})
type ReportRow = z.output<typeof reportRow>

const MAX_ATTEMPTS = 12
/** The alarm wakes a host that was stopped before the store had the report. */
const CONFIRM_MS = 5000
const BACKOFF = { min: 500, max: 600_000 }

export const createWorkflowReports = (
  ports: Ports,
  messages: Messages,
  deadlines: Deadlines,
): WorkflowReports => {
  const { sql } = ports
  let isSending = false
  let hasDue = true
  const next = () =>
    readRow(sql, reportRow, "SELECT * FROM workflow_reports ORDER BY place LIMIT 1")

  const tryOne = async ({ place, execution, envelope }: ReportRow): Promise<unknown> => {
    try {
      await ports.workflowReported(execution, envelope, `${execution}/${place}`)
      return undefined
    } catch (error) {
      return error ?? new Error("rejected without a reason")
    }
  }
  const settle = ({ place, execution, attempts }: ReportRow, failure: unknown) => {
    const isLast = attempts + 1 >= MAX_ATTEMPTS
    if (failure !== undefined)
      ports.report("hub.workflow-report-failed", { execution, attempts: attempts + 1, isLast })
    if (failure !== undefined && !isLast) {
      sql.run("UPDATE workflow_reports SET attempts = attempts + 1 WHERE place = ?", place)
      const wait = backoffMs(attempts, BACKOFF, ports.random())
      return deadlines.set("workflow", "", ports.now() + wait)
    }
    sql.run("DELETE FROM workflow_reports WHERE place = ?", place)
    if (!hasRow(sql, "SELECT 1 FROM workflow_reports")) deadlines.clear("workflow", "")
    if (failure === undefined) return
    const error = `the result of the workflow run ${execution} could not be stored and is lost`
    messages.add("system", { channel: MAIN_CHANNEL, content: "", error }, { id: `lost-${place}` })
  }
  const sendAll = async (commit: (work: () => void) => void): Promise<void> => {
    for (;;) {
      const row = next()
      if (!row) return
      const failure = await tryOne(row)
      commit(() => settle(row, failure))
      // In order: a later report waits until the deadline of this one.
      if (failure !== undefined) return
    }
  }

  return {
    add: (execution, envelope) => {
      sql.run(
        "INSERT INTO workflow_reports (execution, envelope) VALUES (?, ?)",
        execution,
        JSON.stringify(envelope),
      )
      deadlines.set("workflow", "", ports.now() + CONFIRM_MS)
      hasDue = true
    },
    retry: () => {
      hasDue = true
    },
    send: (commit) => {
      if (!hasDue || isSending) return
      hasDue = false
      if (!hasRow(sql, "SELECT 1 FROM workflow_reports")) return
      isSending = true
      sendAll(commit)
        // The host was stopped meanwhile. The rows stay for its next start.
        .catch((error: unknown) =>
          ports.report("hub.workflow-reports-failed", { error: String(error) }),
        )
        .finally(() => {
          isSending = false
        })
    },
  }
}
