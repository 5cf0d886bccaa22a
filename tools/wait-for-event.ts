/** Asks the model to end its turn. The next event arrives as a new prompt, so waiting costs no tokens. */
import { z } from "zod"
import { oneOf, prose, texts } from "../src/wire/operations/fields.ts"
import { defineTool } from "./tool.ts"

export const waitForEvent = defineTool({
  description:
    "End your turn until an event: a change of a child session, a message, a prompt. Write nothing after it.",
  input: z.object({
    reason: prose("What you wait for").optional(),
    session_ids: texts("Sessions to wait for; default: any event").optional(),
    notify_on: oneOf("Events to wait for", ["any", "status change"]).optional(),
    statuses: texts("Statuses to wait for").optional(),
  }),
  run: (input) => {
    const sessions = input.session_ids?.length ? ` of ${input.session_ids.join(", ")}` : ""
    const statuses = input.statuses?.length ? ` (${input.statuses.join(", ")})` : ""
    const event = input.notify_on === "status change" ? "status change" : "event"
    return {
      title: input.reason ?? "Waiting",
      output: `End your turn now, without calling another tool. The next ${event}${sessions}${statuses} arrives as a new message.`,
      metadata: { waitingFor: input },
    }
  },
})
