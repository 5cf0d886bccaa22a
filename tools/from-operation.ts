/** Makes a tool of an operation: its input is the arguments, its reply is what the model reads. */
import type { Operation, ToolRow } from "../src/wire/operations/index.ts"
import { callOperation } from "./gateway.ts"
import { defineTool, type Tool } from "./tool.ts"

export const fromOperation = (operation: Operation, row: ToolRow): Tool =>
  defineTool({
    description: row.description,
    input: operation.input,
    run: async (input, context) => {
      const reply = await callOperation({ operation, input, context })
      return row.render(operation.output.parse(reply))
    },
  })
