/** Writes to the session that started this one. */
import { z } from "zod"
import { flag, text } from "../src/wire/operations/fields.ts"
import { callOperation, operationNamed } from "./gateway.ts"
import { defineTool } from "./tool.ts"

export const notifyParent = defineTool({
  description:
    "Tell the session that started this one how the work goes: that it is done, what came of it, or what you need. Keep it short and complete; the other side sees nothing else of this conversation.",
  input: z.object({
    message: text("What to tell"),
    interrupt: flag("Whether the other session stops what it is doing to read it").optional(),
  }),
  run: async ({ message, interrupt }, context) => {
    const sessionId = process.env["PARENT_SESSION_ID"]
    if (!sessionId) throw new Error("This session was not started by another one: tell the user.")
    const input = { sessionId, content: message, interrupt }
    await callOperation({ operation: operationNamed("send-message"), input, context })
    return "The parent session is notified."
  },
})
