/** Asks the model to end its turn. The next event arrives as a new prompt, so waiting costs no tokens. */
import { z } from "zod"
import { prose } from "../src/wire/operations/fields.ts"
import { defineTool } from "./tool.ts"

export const waitForEvent = defineTool({
  description:
    "End your turn until an event: a change of a child session, a message, a prompt. Write nothing after it.",
  input: z.object({
    reason: prose("What you wait for").optional(),
  }),
  run: (input) => ({
    title: input.reason ?? "Waiting",
    output:
      "End your turn now, without calling another tool. The next event, whichever it is, arrives as a new message.",
    metadata: { waitingFor: input },
  }),
})
