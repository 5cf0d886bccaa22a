/** Sends a message to the parent session. */
import { z } from "zod"
import { flag, text } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

export const notifyParent = defineTool({
  description:
    "Report progress, the result or a question to the parent session. Be short and complete: the parent does not see this conversation.",
  input: z.object({
    message: text("Message text"),
    interrupt: flag("true interrupts the current turn of the parent").optional(),
  }),
  run: async ({ message, interrupt }, context) => {
    const sessionId = process.env["PARENT_SESSION_ID"]
    if (!sessionId) throw new Error("This session has no parent session. Tell the user instead.")
    const input = { sessionId, content: message, interrupt }
    await callOperation({ operation: operationNamed("send-message"), input, context })
    return "The parent session is notified."
  },
})
