/** Makes a tool from an operation: the input becomes the arguments, the rendered reply the output. */
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
