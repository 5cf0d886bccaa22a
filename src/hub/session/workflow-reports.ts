/** Results of workflow runs for the shared store, which ignores a report that it knows. */
import { z } from "zod"
import { MAIN_CHANNEL } from "../../wire/channel.ts"
import type { Outbound } from "../../wire/frames/index.ts"
import type { DeliveryKind } from "./deliveries.ts"
import type { DeliveryRows } from "./delivery-rows.ts"
import type { SessionDeliveries } from "./delivery-kinds.ts"
import type { Messages } from "./messages.ts"
import type { Ports } from "./ports.ts"

type Envelope = Outbound<"workflow-execution-result">["envelope"]

const workflowReport = z.object({
  execution: z.string(),
  envelope: z.custom<Envelope>((value) => typeof value === "object" && value !== null),
})
export type WorkflowReport = z.output<typeof workflowReport>

export interface WorkflowReports {
  /** Inside the transaction of the frame. */
  readonly add: (execution: string, envelope: Envelope) => void
  readonly kind: DeliveryKind<WorkflowReport>
}

export const createWorkflowReports = (
  ports: Ports,
  messages: Messages,
  deliveries: DeliveryRows<SessionDeliveries>,
): WorkflowReports => ({
  add: (execution, envelope) => {
    const id = `${execution}/${ports.newId()}`
    deliveries.add("workflow-report", { id, lane: "workflow", payload: { execution, envelope } })
  },
  kind: {
    payload: workflowReport,
    backoff: { min: 500, max: 600_000 },
    maxAttempts: 12,
    triesAtStart: true,
    send: async ({ id, payload }) =>
      ports.workflowReported(payload.execution, payload.envelope, id),
    givenUp: ({ id, payload }) => {
      const error = `the result of the workflow run ${payload.execution} could not be stored and is lost`
      messages.add("system", { channel: MAIN_CHANNEL, content: "", error }, { id: `lost-${id}` })
    },
  },
})
