/** Ends the model's turn: the next event comes as a prompt of its own, and waiting for it costs nothing. */
import { z } from "zod"
import { oneOf, prose, texts } from "../src/wire/operations/fields.ts"
import { defineTool } from "./tool.ts"

export const waitForEvent = defineTool({
  description:
    "End your turn until something happens: a child session changes, a message comes, the user writes. Call it when all that is left is to wait, and say nothing after it.",
  input: z.object({
    reason: prose("What you wait for").optional(),
    session_ids: texts("The sessions you wait for; any event when absent").optional(),
    notify_on: oneOf("Which events", ["any", "status change"]).optional(),
    statuses: texts("The statuses you wait for").optional(),
  }),
  run: (input) => {
    const sessions = input.session_ids?.length ? ` of ${input.session_ids.join(", ")}` : ""
    const statuses = input.statuses?.length ? ` (${input.statuses.join(", ")})` : ""
    const event = input.notify_on === "status change" ? "change of status" : "event"
    return {
      title: input.reason ?? "Waiting",
      output: `End your turn now, without calling another tool. The next ${event}${sessions}${statuses} comes to you as a new message.`,
      metadata: { waitingFor: input },
    }
  },
})
